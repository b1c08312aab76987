/** The process that migrates the database. */
import { readMigrationConfig } from '../config.ts'
import { migrate } from '../migrate.ts'
import { reportStartupFault, StartupFault } from '../startup-fault.ts'

try {
  if (process.argv.length > 2) throw new StartupFault(['migrate takes no arguments'])
  const tell = (missing: string) => process.stderr.write(`plant-store: waiting: ${missing}\n`)
  const config = readMigrationConfig(process.env)
  const { exposedHost } = config.database
  if (exposedHost !== undefined)
    process.stderr.write(
      `plant-store: the connection to ${exposedHost} is not encrypted: add an sslmode to the URL\n`
    )
  const names = await migrate({ ...config, tell }, 'up')
  process.stdout.write(names[0] ? `migrated: ${names.join(', ')}\n` : 'nothing to migrate\n')
} catch (error) {
  reportStartupFault(error)
}
