/** A real HAProxy with the project's configuration, over instances of the service on this machine. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { statusOf, until } from '../../dev/docker.ts'
import { freePort } from '../../dev/embedded-postgres.ts'

const folder = join(import.meta.dirname, '../../ops/haproxy')

/** Starts HAProxy over the ports; ends it at teardown. Gives the address that clients use. */
export async function startBalancer(t: Test, ports: number[]): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-balancer-'))
  const config = await readFile(join(folder, 'haproxy.cfg'), 'utf8')
  const port = await freePort()
  const file = join(directory, 'haproxy.cfg')
  await writeFile(file, withServers(config, ports))
  const child = spawn('haproxy', ['-db', '-f', file], {
    env: {
      PATH: `${process.env.PATH}:/usr/sbin`,
      HAPROXY_BIND: `127.0.0.1:${port}`,
      HAPROXY_ERRORS: join(folder, 'errors')
    },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  t.teardown(async () => {
    if (child.exitCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await rm(directory, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await until('HAProxy answers', async () => (await statusOf(`${url}/readyz`)) !== undefined)
  return url
}

/** Names the servers where the configuration finds them by DNS, and leaves the rest of it as it is. */
function withServers(config: string, ports: number[]): string {
  const servers = (name: string, options: string) =>
    ports.map((port, index) => `  server ${name}${index + 1} 127.0.0.1:${port} ${options}`).join('\n')
  return config
    .replace(/ {2}server-template api .*\n/, `${servers('api', 'check')}\n`)
    .replace(/ {2}server-template open .*\n/, `${servers('open', '')}\n`)
    .replace(' init-state down', '') // HAProxy 3.1 and later; these servers are not found by DNS
    .replaceAll(' resolvers docker resolve-prefer ipv4 init-addr none', ' inter 1s')
}
