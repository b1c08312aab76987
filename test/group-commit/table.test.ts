/** The table: how a row is tried next after each result of an attempt that has not decided it. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  type Mode,
  modes,
  nextTry,
  type ResultKind,
  Row,
  resultKindOf
} from '../../src/group-commit/row.ts'

/** After an attempt to insert, in each mode; `~` stands for a back-off before it. */
const afterInsert = `
                 | batch      | savepoints | retry  | single      | singleSlow
  absent         | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  refused        | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  serverFault    | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  unknown        | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  retryable      | retry~     | retry~     | retry~ | retry~      | retry~
  slow           | savepoints | single     | single | singleSlow~ | singleSlow~
  inconclusive   | savepoints | single     | single | singleSlow~ | singleSlow~
  untried        | batch      | savepoints | retry  | single      | singleSlow
  unavailable    | batch      | savepoints | retry  | single      | singleSlow
  schemaMismatch | fails      | fails      | fails  | fails       | fails`

/** After a look-up of a row that was inserted in a batch. */
const afterLookUp = `
                 | lookUp        | lookUpSingle
  absent         | savepoints    | savepoints
  refused        | fails         | fails
  serverFault    | fails         | fails
  unknown        | lookUp~       | lookUpSingle~
  retryable      | lookUp~       | lookUpSingle~
  slow           | lookUpSingle~ | lookUpSingle~
  inconclusive   | lookUpSingle~ | lookUpSingle~
  untried        | lookUp        | lookUpSingle
  unavailable    | lookUp        | lookUpSingle
  schemaMismatch | fails         | fails`

const facts = { insertMode: 'batch', mayBeStored: false, permanentError: undefined } as const

const write = (next: ReturnType<typeof nextTry>) =>
  next ? `${next[0]}${next[1] ? '~' : ''}` : 'fails'
const cells = (line: string) => line.match(/\w+~?/g) ?? []

t.test('how a row is tried next, by the mode and the result of its attempt', async (t) => {
  const seen = new Set<string>()
  for (const table of [afterInsert, afterLookUp]) {
    const [head = '', ...lines] = table.split('\n').slice(1)
    const columns = cells(head) as Mode[]
    for (const line of lines) {
      const [result, ...expected] = cells(line) as [ResultKind, ...string[]]
      t.equal(expected.length, columns.length, result)
      for (const [index, mode] of columns.entries()) {
        seen.add(`${mode} ${result}`)
        t.equal(write(nextTry({ ...facts, mode }, result)), expected[index], `${mode}: ${result}`)
        const open = write(nextTry({ ...facts, mode, mayBeStored: true }, result))
        const asked = mode === 'lookUpSingle' ? 'lookUpSingle~' : 'lookUp~'
        t.equal(
          open,
          expected[index] === 'fails' ? asked : expected[index],
          `${mode}, and it may be stored: ${result}`
        )
      }
    }
  }
  t.equal(seen.size, modes.length * 10)
})

t.test('a row that a look-up has not found is inserted with fewer others each time', async (t) => {
  const afterwards = (insertMode: Mode) =>
    write(nextTry({ ...facts, mode: 'lookUp', insertMode }, 'absent'))
  t.strictSame((['batch', 'savepoints', 'retry'] as const).map(afterwards), [
    'savepoints',
    'single',
    'single'
  ])
})

t.test(
  'a row fails if a look-up does not find it and it was refused, or left out of a single insert',
  async (t) => {
    const notFound = (more: object) =>
      write(nextTry({ ...facts, mode: 'lookUp', ...more }, 'absent'))
    t.equal(notFound({ permanentError: new Error() }), 'fails')
    t.equal(notFound({ permanentError: new Error(), mayBeStored: true }), 'fails')
    t.equal(notFound({ insertMode: 'single' }), 'fails')
    t.equal(notFound({ insertMode: 'single', mayBeStored: true }), 'singleSlow~')
  }
)

t.test(
  'a failure of several rows is inconclusive for each, unless its kind holds for every row',
  async (t) => {
    const kinds = [
      'unavailable',
      'schemaMismatch',
      'unknown',
      'retryable',
      'serverFault',
      'refused'
    ] as const
    const results = (rows: number, isCutOff: boolean) =>
      kinds.map((kind) => resultKindOf({ kind, error: new Error(kind) }, rows, isCutOff)).join()
    t.equal(results(1, false), 'unavailable,schemaMismatch,unknown,retryable,serverFault,refused')
    t.equal(
      results(2, false),
      'unavailable,schemaMismatch,unknown,inconclusive,inconclusive,inconclusive'
    )
    t.equal(
      results(1, true),
      'inconclusive,schemaMismatch,unknown,inconclusive,inconclusive,inconclusive'
    )
    t.equal(
      results(2, true),
      'inconclusive,schemaMismatch,unknown,inconclusive,inconclusive,inconclusive'
    )
  }
)

t.test('docs/architecture.md has these tables', async (t) => {
  const page = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8')
  for (const table of [afterInsert, afterLookUp])
    t.ok(page.includes(`\`\`\`text${table}\n\`\`\``), table)
})

t.test('a row has one outcome', async (t) => {
  const row = new Row({ id: 1n, bytes: 1 }, 1, () => {})
  row.settle('created')
  t.throws(() => row.settle('created'), { message: 'a row has one outcome' })
})
