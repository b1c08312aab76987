/** Runs before the test files: says at once what is forgotten in the migrations, which nearly every test would fail by. */
import { selectRequired } from '../../src/plants/statements.ts'
import { createDatabase, query } from './database.ts'

let drop: () => unknown = () => {}
const url = await createDatabase({ teardown: (callback: () => unknown) => (drop = callback) })
await query(url, selectRequired).catch(({ message }) => {
  process.stderr.write(`migrations/ does not make the table of src/plants/columns.ts: ${message}\n`)
  process.exitCode = 1
})
await drop()
