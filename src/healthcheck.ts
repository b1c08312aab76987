/**
 * The process that asks the service beside it for its health, for a container's HEALTHCHECK:
 * `healthcheck.ts [/livez|/readyz]`. Exits with 0 when the answer is 200, with 1 otherwise.
 */
import { readProbeUrl } from './config.ts'
import { reportStartupFault, StartupFault } from './startup-fault.ts'

try {
  const path = process.argv[2] ?? '/livez'
  if (path !== '/livez' && path !== '/readyz') throw new StartupFault(['usage: healthcheck [/livez|/readyz]'])
  const response = await fetch(new URL(path, readProbeUrl(process.env)))
  if (response.status !== 200) throw new StartupFault([`${path}: ${await response.text()}`])
} catch (error) {
  reportStartupFault(error)
}
