/** The process that migrates the database. */
import { readMigrationConfig } from '../config.ts'
import { migrate } from '../migrate.ts'
import { reportStartupFault, StartupFault } from '../startup-fault.ts'

try {
  if (process.argv.length > 2) throw new StartupFault(['migrate takes no arguments'])
  const say = (line: string) => process.stderr.write(`plant-store: ${line}\n`)
  const { database, startupTimeoutMs } = readMigrationConfig(process.env)
  const { exposedHost: host } = database
  if (host !== undefined) say(`the connection to ${host} is not encrypted: add an sslmode to the URL`)
  const names = await migrate('up', database, startupTimeoutMs, (missing) => say(`waiting: ${missing}`))
  process.stdout.write(names[0] ? `migrated: ${names.join(', ')}\n` : 'nothing to migrate\n')
} catch (error) {
  reportStartupFault(error)
}
