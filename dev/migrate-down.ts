/** Reverts the newest migration, whose values are lost. For the author of a migration: it is not in the image. */

import { migrate } from '../src/commands/migrations.ts'
import { readMigrationConfig } from '../src/config/config.ts'

console.log(`reverted: ${await migrate(readMigrationConfig(process.env), 'down')}`)
