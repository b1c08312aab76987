/**
 * The process that checks the health of the service in the same container, for HEALTHCHECK:
 * `healthcheck.ts [/livez|/readyz]`. Exits with 0 when the response is 200, with 1 otherwise.
 */
import { once } from 'node:events'
import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import { readProbeUrl } from '../config/address.ts'
import { reportStartupFault, StartupFault } from '../failures/startup-fault.ts'

try {
  const path = process.argv[2] ?? '/livez'
  if (path !== '/livez' && path !== '/readyz') throw new StartupFault(['usage: healthcheck [/livez|/readyz]'])
  const [response] = await once(get(readProbeUrl(path, process.env)), 'response')
  const body = await text(response)
  if (response.statusCode !== 200) throw new StartupFault([`${path}: ${body}`])
} catch (error) {
  reportStartupFault(error)
}
