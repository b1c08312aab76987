/** A real HAProxy with the project's configuration, over instances of the service on this machine. */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { until } from '../../support/until.ts'
import { startProgram } from './program.ts'

const folder = join(import.meta.dirname, '../../ops/haproxy')
const shipped = readFileSync(join(folder, 'haproxy.cfg'), 'utf8')

/** Starts HAProxy over the ports, with at most this many requests at each. */
export async function startHaproxy(t: Test, ports: number[], maxConnections = 1_000) {
  const { url, directory } = await startProgram(t, 'haproxy', ({ directory, port, otherPort }) => ({
    files: { config: withServers(ports, join(directory, 'control')) },
    args: ['-db', '-f', join(directory, 'config')],
    variables: {
      HAPROXY_BIND: `127.0.0.1:${port}`,
      HAPROXY_METRICS_BIND: `127.0.0.1:${otherPort}`,
      HAPROXY_SERVER_MAXCONN: String(maxConnections),
      HAPROXY_ERRORS: join(folder, 'errors')
    }
  }))
  /** What HAProxy's checks report of the server at a port. */
  async function state(port: number) {
    const [head, ...lines] = (await text(connect(join(directory, 'control')).end('show stat\n'))).split('\n')
    const names = head?.split(',') ?? []
    const of = (name: string) => (fields: string[]) => fields[names.indexOf(name)]
    const servers = lines.map((line) => line.split(','))
    const server = servers.find((fields) => of('svname')(fields) === `api${ports.indexOf(port) + 1}`)
    return (server && of('status')(server)) ?? ''
  }
  const isUp = (port: number) =>
    until(
      `${port} is up`,
      () => state(port),
      (status) => status.startsWith('UP')
    )
  return { url, isUp }
}

/** Names the servers where the configuration finds them by DNS, adds a control socket, and leaves the rest as it is. */
function withServers(ports: number[], control: string): string {
  const servers = ports.map((port, index) => `  server api${index + 1} 127.0.0.1:${port} check`).join('\n')
  return (
    shipped
      .replace(/^global\n/m, `global\n  stats socket ${control}\n`)
      .replace(/ {2}server-template api .*\n/, `${servers}\n`)
      // HAProxy 3.2 and later; these servers are not found by DNS.
      .replace(' init-state down', '')
      .replaceAll(/ {2}http-request pause .*\n/g, '')
      .replace(' resolvers containers resolve-prefer ipv4 init-addr none', ' inter 1s')
  )
}
