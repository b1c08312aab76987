/** Runs before the test files: reports at once what the migrations lack, which would fail nearly every test. */

import { createDatabase, query } from '../../harness/postgres/database.ts'
import { selectRequired } from '../../src/plants/statements.ts'

let drop: () => unknown = () => {}
const url = await createDatabase({ teardown: (callback: () => unknown) => (drop = callback) })
await query(url, selectRequired).catch(({ message }) => {
  process.stderr.write(`migrations/ does not make the table of src/plants/columns.ts: ${message}\n`)
  process.exitCode = 1
})
await drop()
