/** The table: what comes next for a row that an attempt has not decided. */
import t from 'tap'
import { type Ending, endingOf, type Mode, modes, next, Row } from '../../src/group-commit/row.ts'

/** After an attempt to insert, in each mode; `~` stands for a back-off before it. */
const afterInsert = `
                 | batch      | savepoints | retry  | single      | singleSlow
  absent         | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  refused        | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  serverFault    | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  unknown        | lookUp     | lookUp     | lookUp | lookUp      | lookUp
  retryable      | retry~     | retry~     | retry~ | retry~      | retry~
  slow           | savepoints | single     | single | singleSlow~ | singleSlow~
  failed         | savepoints | single     | single | singleSlow~ | singleSlow~
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
  failed         | lookUpSingle~ | lookUpSingle~
  untried        | lookUp        | lookUpSingle
  unavailable    | lookUp        | lookUpSingle
  schemaMismatch | fails         | fails`

const facts = { insertMode: 'batch', mayBeStored: false, refusal: undefined } as const

const write = (step: ReturnType<typeof next>) => (step ? `${step[0]}${step[1] ? '~' : ''}` : 'fails')
const cells = (line: string) => line.match(/\w+~?/g) ?? []

t.test('what comes next, by the mode and the ending of an attempt', async (t) => {
  const seen = new Set<string>()
  for (const table of [afterInsert, afterLookUp]) {
    const [head = '', ...lines] = table.split('\n').slice(1)
    const columns = cells(head) as Mode[]
    for (const line of lines) {
      const [ending, ...steps] = cells(line) as [Ending, ...string[]]
      t.equal(steps.length, columns.length, ending)
      for (const [index, mode] of columns.entries()) {
        seen.add(`${mode} ${ending}`)
        t.equal(write(next({ ...facts, mode }, ending)), steps[index], `${mode}: ${ending}`)
        const open = write(next({ ...facts, mode, mayBeStored: true }, ending))
        const asked = mode === 'lookUpSingle' ? 'lookUpSingle~' : 'lookUp~'
        t.equal(open, steps[index] === 'fails' ? asked : steps[index], `${mode}, perhaps stored: ${ending}`)
      }
    }
  }
  t.equal(seen.size, modes.length * 10)
})

t.test('a row that a look-up has not found is inserted with fewer others each time', async (t) => {
  const afterwards = (insertMode: Mode) => write(next({ ...facts, mode: 'lookUp', insertMode }, 'absent'))
  t.strictSame((['batch', 'savepoints', 'retry'] as const).map(afterwards), [
    'savepoints',
    'single',
    'single'
  ])
})

t.test('a row fails that is refused, or left out even alone, and is not found', async (t) => {
  const notFound = (more: object) => write(next({ ...facts, mode: 'lookUp', ...more }, 'absent'))
  t.equal(notFound({ refusal: new Error() }), 'fails')
  t.equal(notFound({ refusal: new Error(), mayBeStored: true }), 'fails')
  t.equal(notFound({ insertMode: 'single' }), 'fails')
  t.equal(notFound({ insertMode: 'single', mayBeStored: true }), 'singleSlow~')
})

t.test(
  'the failure of a single row is its verdict; that of several says nothing about one of them',
  async (t) => {
    const kinds = ['unavailable', 'schemaMismatch', 'unknown', 'retryable', 'serverFault', 'refused'] as const
    const endings = (rows: number, isCutOff: boolean) =>
      kinds.map((kind) => endingOf({ kind, error: new Error(kind) }, rows, isCutOff)).join()
    t.equal(endings(1, false), 'unavailable,schemaMismatch,unknown,retryable,serverFault,refused')
    t.equal(endings(2, false), 'unavailable,schemaMismatch,unknown,failed,failed,failed')
    t.equal(endings(1, true), 'failed,schemaMismatch,unknown,failed,failed,failed')
    t.equal(endings(2, true), 'failed,schemaMismatch,unknown,failed,failed,failed')
  }
)

t.test('a row has one outcome', async (t) => {
  const row = new Row({ id: 1n, bytes: 1 }, 1, () => {})
  row.settle('created')
  t.throws(() => row.settle('created'), { message: 'a row has one outcome' })
})
