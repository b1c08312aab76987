/** Where a probe finds the service. A probe is a process every few seconds, and loading TypeBox would take most of its time. */
import { isIP } from 'node:net'

/** The address to listen on, where HOST and PORT are not set. */
export const defaultAddress = { HOST: '0.0.0.0', PORT: 3000 }

/**
 * Returns the service's URL for another process on this machine: HOST, or the loopback if that is all addresses, and PORT.
 * It checks neither: the service did when it started.
 */
export function readProbeUrl(env: Record<string, string | undefined>): string {
  const HOST = env.HOST || defaultAddress.HOST
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[HOST] ?? HOST
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${env.PORT || defaultAddress.PORT}`
}
