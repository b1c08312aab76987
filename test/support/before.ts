/** Runs before the test files: says at once what is forgotten in the migrations, which nearly every test would fail by. */
import { selectRequired } from '../../src/plants/requirements.ts'
import { createDatabase, query } from './database.ts'
import { withTeardown } from './process.ts'

if (process.env.TEST_DATABASE_URL !== undefined) {
  await withTeardown(async (t) => {
    await query(await createDatabase(t), selectRequired).catch(({ message }) => {
      process.stderr.write(`migrations/ does not make the table of src/plants/columns.ts: ${message}\n`)
      process.exitCode = 1
    })
  })
}
