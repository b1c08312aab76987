/** A real HAProxy with the project's configuration, over instances of the service on this machine. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { until } from '../../harness/time/until.ts'

const folder = join(import.meta.dirname, '../../ops/haproxy')

/** Starts HAProxy over the ports, with at most this many requests at each, and in all; ends it at teardown. */
export async function startBalancer(t: Test, ports: number[], maxConnections = 1_000, inAll = 4_000) {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-balancer-'))
  const config = await readFile(join(folder, 'haproxy.cfg'), 'utf8')
  const [port, metricsPort] = [await freePort(), await freePort()]
  const file = join(directory, 'haproxy.cfg')
  const control = join(directory, 'control')
  await writeFile(file, withServers(config, ports, control).replace('maxconn 4000', `maxconn ${inAll}`))
  const child = spawn('haproxy', ['-db', '-f', file], {
    env: {
      PATH: `${process.env.PATH}:/usr/sbin`,
      HAPROXY_BIND: `127.0.0.1:${port}`,
      HAPROXY_METRICS_BIND: `127.0.0.1:${metricsPort}`,
      HAPROXY_SERVER_MAXCONN: String(maxConnections),
      HAPROXY_ERRORS: join(folder, 'errors')
    },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await rm(directory, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await until('HAProxy listens', () => fetch(`${url}/readyz`))
  return {
    /** The address that clients use. */
    url,
    /** The address of its metrics, as host:port. */
    metrics: `127.0.0.1:${metricsPort}`,
    kill: () => child.kill('SIGKILL'),
    /** Returns when HAProxy's checks report this for the server at a port. */
    async says(port: number, state: 'UP' | 'DOWN') {
      await until(`${port} is ${state}`, async () => {
        const [head, ...lines] = (await text(connect(control).end('show stat\n'))).split('\n')
        const names = head?.split(',') ?? []
        const servers = lines.map((line) => line.split(','))
        const of = (name: string) => (fields: string[]) => fields[names.indexOf(name)]
        const server = servers.find((fields) => of('svname')(fields) === `api${ports.indexOf(port) + 1}`)
        return server !== undefined && of('status')(server)?.startsWith(state)
      })
    }
  }
}

/** Names the servers where the configuration finds them by DNS, adds a control socket, and leaves the rest as it is. */
function withServers(config: string, ports: number[], control: string): string {
  const servers = ports.map((port, index) => `  server api${index + 1} 127.0.0.1:${port} check`).join('\n')
  return (
    config
      .replace(/^global\n/m, `global\n  stats socket ${control}\n`)
      .replace(/ {2}server-template api .*\n/, `${servers}\n`)
      // HAProxy 3.2 and later; these servers are not found by DNS.
      .replace(' init-state down', '')
      .replaceAll(/ {2}http-request pause .*\n/g, '')
      .replace(' resolvers containers resolve-prefer ipv4 init-addr none', ' inter 1s')
  )
}
