/**
 * `npm run reset`: drops the development database, which is in .data or in the directory that the argument names. The next
 * `npm run dev` makes an empty one. The token stays.
 */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { claim, database, directoryOf } from './data.ts'

const directory = directoryOf(process.argv[2])
const { DATABASE_URL, DATABASE_URL_FILE } = process.env
if (DATABASE_URL || DATABASE_URL_FILE)
  giveUp('DATABASE_URL names a database of your own, which this command does not drop')
await access(join(directory, 'cluster', 'PG_VERSION')).catch(() =>
  giveUp(`there is no database in ${directory}`)
)
if (!(await claim(directory))) giveUp(`npm run dev uses the database in ${directory}: end it first`)

const postgres = await startPostgres({ directory }).catch(({ message }) =>
  giveUp(`PostgreSQL does not start: ${message}`)
)
await query(postgres.url('postgres'), `drop database if exists ${database}`)
await postgres.stop()
process.stdout.write(`The database in ${directory} is dropped. npm run dev makes an empty one.\n`)

function giveUp(reason: string): never {
  process.stderr.write(`npm run reset: ${reason}\n`)
  process.exit(1)
}
