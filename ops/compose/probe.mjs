// probe: asks each published port again and again for /readyz, and writes whether there is a response to where Prometheus reads it.
// BIND, PLAIN_BIND, PORT and TLS_PORT are docker-compose.yml's; with the profile tls in PROFILES, both ports are probed.
import { renameSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { isIPv6 } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const { BIND, PLAIN_BIND, PORT, PROFILES, TLS_PORT } = process.env
const own = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The origin of a published port, as this machine reaches it. */
function originOf(scheme, bind, port) {
  const address = own[bind] ?? bind
  return `${scheme}://${isIPv6(address) ? `[${address}]` : address}:${port}`
}

/**
 * 1 for a response of the service, or of the balancer for it, which may keep a request waiting for 10 s: what is behind the
 * port has alerts of its own. Whose certificate it is does not matter here.
 */
const probe = (origin) =>
  new Promise((resolve) => {
    const { get } = origin.startsWith('https') ? https : http
    const options = { agent: false, rejectUnauthorized: false, signal: AbortSignal.timeout(12_000) }
    get(`${origin}/readyz`, options, (response) =>
      resolve([200, 400].includes(response.resume().statusCode) ? 1 : 0)
    ).on('error', () => resolve(0))
  })

const origins = [originOf('http', PLAIN_BIND, PORT)]
if (PROFILES.split(',').includes('tls')) origins.push(originOf('https', BIND, TLS_PORT))

for (;;) {
  const found = await Promise.all(origins.map(async (origin) => ({ origin, success: await probe(origin) })))
  const lines = found.map(
    ({ origin, success }) => `plant_store_probe_success{instance="${origin}"} ${success}\n`
  )
  lines.push(`plant_store_probe_time_seconds ${Math.floor(Date.now() / 1_000)}\n`)
  writeFileSync('/pages/.probe', lines.join(''))
  renameSync('/pages/.probe', '/pages/probe.prom')
  await sleep(10_000)
}
