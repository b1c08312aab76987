/** A PostgreSQL in Docker, on a network of its own, for containers of the service's image. */
import { randomBytes } from 'node:crypto'
import { docker, psql, toLines } from './docker.ts'
import { until } from './until.ts'

/** The environment of a service's container; the token is the tests' own. */
export interface DockerDatabase {
  /** The network that both share. */
  network: string
  /** The container's name. */
  container: string
  /** The URL within the network. */
  url: string
  /** Runs SQL and returns the rows as psql prints them: a line each, fields separated by "|". */
  sql(text: string): Promise<string[]>
  /** Removes both. */
  remove(): Promise<void>
}

/** Starts it and waits until it takes connections. */
export async function startDatabase(): Promise<DockerDatabase> {
  const name = `plant-store-test-${randomBytes(4).toString('hex')}`
  const image = process.env.POSTGRES_IMAGE || 'postgres:18'
  // While the cluster is created, the server listens only on its Unix socket.
  const sql = async (text: string) =>
    toLines(await docker(['exec', name, ...psql('postgres', 'postgres', text), '--host=127.0.0.1']))
  await docker(['network', 'create', name])
  const trust = ['--env', 'POSTGRES_HOST_AUTH_METHOD=trust']
  await docker(['run', '--detach', '--name', name, '--network', name, ...trust, image])
  await until('the database takes connections', () => sql('select 1'))
  return {
    network: name,
    container: name,
    url: `postgres://postgres@${name}:5432/postgres`,
    sql,
    async remove() {
      await docker(['rm', '--force', '--volumes', name])
      await docker(['network', 'rm', name])
    }
  }
}
