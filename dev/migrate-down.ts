/** Reverts the newest migration, whose values are lost. For the author of a migration: it is not in the image. */
import { readMigrationConfig } from '../src/config.ts'
import { migrate } from '../src/migrate.ts'

const { database, startupTimeoutMs } = readMigrationConfig(process.env)
console.log(`reverted: ${await migrate('down', database, startupTimeoutMs)}`)
