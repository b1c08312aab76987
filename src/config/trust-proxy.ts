/** Which proxies in front of the service are believed. */
import { isIP } from 'node:net'

/** Whose X-Forwarded-For counts: networks, or (address, hop) for a number of hops; false for nobody's. */
export type TrustProxy = false | string[] | ((address: string, hop: number) => boolean)

const maximumHops = 32

/** The variable, as docs/configuration.md has it. */
export const trustProxy = {
  default: '',
  description: `a number of hops from 1 to ${maximumHops}, or addresses and networks such as 10.0.0.0/8,::1`,
  purpose:
    "Proxies whose `X-Forwarded-For` gives the client's address. Use hops only where every request passes that many proxies."
}

/** Reads TRUST_PROXY; adds a line to `faults` where it is bad. */
export function readTrustProxy(text: string | undefined, faults: string[]): TrustProxy {
  if (!text) return false
  if (/^[1-9]\d?$/.test(text) && Number(text) <= maximumHops) return (_, hop) => hop < Number(text)
  const networks = text.split(',').map((entry) => entry.trim())
  if (networks.every(isNetwork)) return networks
  faults.push(`TRUST_PROXY must be ${trustProxy.description}`)
  return false
}

/** An address, or one with the length of its prefix; not all addresses, and none with a zone. */
function isNetwork(text: string): boolean {
  const [, address = '', prefix = '1'] = /^([^/%]+)(?:\/([1-9]\d{0,2}))?$/.exec(text) ?? []
  const version = isIP(address)
  return version !== 0 && Number(prefix) <= (version === 4 ? 32 : 128)
}
