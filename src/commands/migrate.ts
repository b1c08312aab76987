/** The process that migrates the database: `migrate.ts [up|down]`. */
import { readMigrationConfig } from '../config/config.ts'
import { migrate } from '../database/migrate.ts'
import { reportStartupFault, StartupFault } from '../failures/startup-fault.ts'

try {
  const direction = process.argv[2] ?? 'up'
  if (direction !== 'up' && direction !== 'down') throw new StartupFault(['usage: migrate [up|down]'])
  const tell = (missing: string) => process.stderr.write(`plant-store: waiting: ${missing}\n`)
  const names = await migrate({ ...readMigrationConfig(process.env), tell }, direction)
  process.stdout.write(names[0] ? `migrated ${direction}: ${names.join(', ')}\n` : 'nothing to migrate\n')
} catch (error) {
  reportStartupFault(error)
}
