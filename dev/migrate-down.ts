/** Takes back the newest migration, and loses its values: for its author. It is not in the image. */
import { readMigrationConfig } from '../src/config/config.ts'
import { migrate } from '../src/database/migrate.ts'

console.log(`taken back: ${await migrate(readMigrationConfig(process.env), 'down')}`)
