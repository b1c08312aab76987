/**
 * The addresses that the service listens on. Without TypeBox: a probe is a process that starts every few seconds, and loading
 * TypeBox would take most of its time.
 */
import { isIP } from 'node:net'
import { StartupFault } from '../failures/startup-fault.ts'

/** The defaults of the settings. */
export const defaultAddress = {
  HOST: '0.0.0.0',
  PORT: 3000,
  METRICS_HOST: '127.0.0.1',
  METRICS_PORT: 9464
} as const
/** The highest port of TCP. */
export const highestPort = 65_535

/** The rule for an address; it completes the sentence "HOST must be …". */
export const hostRule =
  'an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several'

/** Returns whether a text is an address without a zone, which a URL cannot hold. */
export const isAddress = (text: string) => isIP(text) !== 0 && !text.includes('%')

/**
 * Returns the URL of a probe for another process on this machine. /livez is on the metrics' listener, where no flood of
 * clients can keep a probe out. Where that is off, or on a port that is not known before, /livez is at HOST and PORT, as
 * /readyz always is. Throws a StartupFault with one line for each bad value.
 */
export function readProbeUrl(path: string, env: Record<string, string | undefined>): string {
  const usesMetricsListener = path === '/livez' && !['off', '0'].includes(env.METRICS_PORT ?? '')
  const [HOST, PORT] = usesMetricsListener
    ? (['METRICS_HOST', 'METRICS_PORT'] as const)
    : (['HOST', 'PORT'] as const)
  const host = env[HOST] || defaultAddress[HOST]
  const port = env[PORT] || String(defaultAddress[PORT])
  const faults: string[] = []
  if (!isAddress(host)) faults.push(`${HOST} must be ${hostRule}`)
  if (!/^\d+$/.test(port) || Number(port) > highestPort)
    faults.push(`${PORT} must be an integer from 0 to ${highestPort}`)
  if (faults.length > 0) throw new StartupFault(faults)
  // Where the service listens on all addresses, the probe takes the loopback.
  const reached = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  return `http://${isIP(reached) === 6 ? `[${reached}]` : reached}:${port}${path}`
}
