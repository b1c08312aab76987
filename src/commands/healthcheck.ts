/**
 * The process that checks the health of the service in the same container, for HEALTHCHECK:
 * `healthcheck.ts [/livez|/readyz]`. Exits with 0 when the response is 200, with 1 otherwise. It starts every few seconds, so
 * it loads neither the settings nor a library.
 */
import { once } from 'node:events'
import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import { reportStartupFault, StartupFault } from '../startup-fault.ts'

/** What reaches a service that listens on all addresses. */
const loopback: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

try {
  const path = process.argv[2] ?? '/livez'
  if (path !== '/livez' && path !== '/readyz') throw new StartupFault(['usage: healthcheck [/livez|/readyz]'])
  const { env } = process
  // /livez is also on the metrics' listener, where no flood of clients can keep a probe out.
  const isOnMetrics = path === '/livez' && !['off', '0'].includes(env.METRICS_PORT ?? '')
  const host = (isOnMetrics ? env.METRICS_HOST || '127.0.0.1' : env.HOST) || '0.0.0.0'
  const port = isOnMetrics ? env.METRICS_PORT || 9464 : env.PORT || 3000
  const [response] = await once(get({ host: loopback[host] ?? host, port, path }), 'response')
  const body = await text(response)
  if (response.statusCode !== 200) throw new StartupFault([`${path}: ${body}`])
} catch (error) {
  reportStartupFault(error)
}
