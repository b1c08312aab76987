/** HOST and PORT, without TypeBox: a probe is a process every few seconds, and loading TypeBox would take most of its time. */
import { isIP } from 'node:net'
import { StartupFault } from '../failures/failure.ts'

/** The address to listen on, where HOST and PORT are not set. */
export const defaultAddress = { HOST: '0.0.0.0', PORT: 3000 }
export const highestPort = 65_535

/** Completes the sentence "HOST must be …". */
export const hostRule =
  'an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several'

/** Returns whether a text is an address without a zone, which a URL cannot hold. */
export const isAddress = (text: string) => isIP(text) !== 0 && !text.includes('%')

/**
 * Returns the service's URL for another process on this machine: HOST, or the loopback if that is all addresses, and PORT.
 * Throws a StartupFault with one line for each bad value.
 */
export function readProbeUrl(env: Record<string, string | undefined>): string {
  const HOST = env.HOST || defaultAddress.HOST
  const PORT = env.PORT || String(defaultAddress.PORT)
  const faults: string[] = []
  if (!isAddress(HOST)) faults.push(`HOST must be ${hostRule}`)
  if (!/^\d+$/.test(PORT) || Number(PORT) > highestPort)
    faults.push(`PORT must be an integer from 0 to ${highestPort}`)
  if (faults.length > 0) throw new StartupFault(faults)
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[HOST] ?? HOST
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${PORT}`
}
