/** HAProxy by docker-compose.yml's image and ops/haproxy, over replicas at ports of this machine. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './process.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Returns the configuration with its servers named, where the stack finds them by DNS; the rest is as it is shipped. */
export function haproxyConfig(ports: number[]): string {
  const servers = ports.map((port, index) => `  server api${index + 1} 127.0.0.1:${port} check\n`)
  return read('ops/haproxy/haproxy.cfg')
    .replace(/ {2}server-template api .*\n/, servers.join(''))
    .replace(' resolvers containers resolve-prefer ipv4 init-addr none', '')
}

/** Where HAProxy listens, and the directory of its configuration, haproxy.cfg. */
interface Place {
  directory: string
  port: number
  metricsPort: number
}

/**
 * Returns what follows `docker run --network=host` and its other options. HAPROXY_IMAGE names another image, as it does for the
 * stack.
 */
export function haproxyContainer({ directory, port, metricsPort }: Place): string[] {
  const [, shipped = ''] = /\{HAPROXY_IMAGE:-([^}]+)\}/.exec(read('docker-compose.yml')) ?? []
  const variables = {
    HAPROXY_BIND: `127.0.0.1:${port}`,
    HAPROXY_METRICS_BIND: `127.0.0.1:${metricsPort}`,
    HAPROXY_SERVER_MAXCONN: '1000',
    HAPROXY_ERRORS: '/errors'
  }
  return [
    ...Object.entries(variables).map(([name, value]) => `--env=${name}=${value}`),
    '--user=0',
    `--volume=${join(root, 'ops/haproxy/errors')}:/errors:ro`,
    `--volume=${directory}:/config:ro`,
    process.env.HAPROXY_IMAGE || shipped,
    ...['haproxy', '-db', '-f', '/config/haproxy.cfg']
  ]
}
