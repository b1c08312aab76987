/** All that a benchmark starts. It ends with the benchmark, even after a failure or Ctrl-C. */
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execute } from '../test/support/execute.ts'
import { type Server as Postgres, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { type Program, readScript, type Server, startServer } from './server.ts'

/** Fully durable; nothing else differs from PostgreSQL's defaults. */
const settings = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }

/** File systems that keep nothing, by their numbers in statfs(2): tmpfs and ramfs. */
const volatile = [0x01021994, 0x858458f6]

/** Where a benchmark works. */
export interface Environment {
  /** A temporary directory on a disk. */
  readonly directory: string
  readonly postgres: Postgres
  /** Makes a database by a program's own migrations, and returns its URL. */
  createDatabase(name: string, program: Program): Promise<string>
  /** Makes the database of the peers, whose table has no column that only the service needs; returns its URL. */
  createPeersDatabase(): Promise<string>
  startServer(program: Program, databaseUrl: string): Promise<Server>
}

/** Does the work in an environment of its own, and removes it. */
export async function inEnvironment(work: (environment: Environment) => Promise<void>): Promise<void> {
  const ends: (() => Promise<void>)[] = []
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => reject(new Error(`ended by ${signal}`)))
  })
  interrupted.catch(() => {}) // it can come before anybody waits for it
  try {
    const directory = await mkdtemp(join(tmpdir(), 'plant-store-bench-'))
    ends.push(() => rm(directory, { recursive: true, force: true }))
    const { type } = await statfs(directory)
    if (volatile.includes(type))
      throw new Error('the temporary directory is in memory: set TMPDIR to one on a disk')
    const postgres = await startPostgres({ directory, settings })
    ends.push(() => postgres.stop())
    const create = async (name: string) => {
      await query(postgres.url('postgres'), `create database ${name}`)
      return postgres.url(name)
    }
    const environment: Environment = {
      directory,
      postgres,
      async createDatabase(name, program) {
        const url = await create(name)
        const args = readScript(program.directory, 'migrate')
        await execute(process.execPath, args, { cwd: program.directory, env: { DATABASE_URL: url } })
        return url
      },
      async createPeersDatabase() {
        const url = await create('peers')
        await query(url, 'create table plants (id bigint primary key, name text not null, tag text)')
        return url
      },
      async startServer(program, databaseUrl) {
        const server = await startServer(program, databaseUrl, directory)
        ends.push(() => server.stop())
        return server
      }
    }
    await Promise.race([work(environment), interrupted])
  } finally {
    for (let end = ends.pop(); end; end = ends.pop()) await end()
  }
}
