/** The table: what comes next for a row that an attempt has not decided. */
import t from 'tap'
import { type Ending, endingOf, next, Row, type Way } from '../../src/group-commit/row.ts'

/** After an attempt of each way; `~` stands for a rest. */
const table = `
          | together   | carefully  | again      | alone      | patiently  | lookUp       | lookUpAlone
  absent  | lookUp     | lookUp     | lookUp     | lookUp     | lookUp     | carefully    | carefully
  untried | together   | carefully  | again      | alone      | patiently  | lookUp       | lookUpAlone 
  refused | lookUp     | lookUp     | lookUp     | lookUp     | lookUp     | fails        | fails
  serverFault | lookUp     | lookUp     | lookUp     | lookUp     | lookUp     | fails        | fails
  retryable | again~     | again~     | again~     | again~     | again~     | lookUp~      | lookUpAlone~
  slow    | carefully  | alone      | alone      | patiently~ | patiently~ | lookUpAlone~ | lookUpAlone~
  unavailable | together   | carefully  | again      | alone      | patiently  | lookUp       | lookUpAlone 
  schemaMismatch | fails      | fails      | fails      | fails      | fails      | fails        | fails
  unknown | lookUp     | lookUp     | lookUp     | lookUp     | lookUp     | lookUp~      | lookUpAlone~
  failed  | carefully  | alone      | alone      | patiently~ | patiently~ | lookUpAlone~ | lookUpAlone~`

const facts = { insertWay: 'together', mayBeStored: false, refusal: undefined } as const

const write = (step: ReturnType<typeof next>) => (step ? `${step[0]}${step[1] ? '~' : ''}` : 'fails')
const cells = (line: string) => line.match(/\w+~?/g) ?? []
const [head = '', ...lines] = table.trimEnd().split('\n').slice(1)
const ways = cells(head) as Way[]

t.test('what comes next, by the way and the ending of an attempt', async (t) => {
  for (const line of lines) {
    const [ending, ...steps] = cells(line) as [Ending, ...string[]]
    t.equal(steps.length, ways.length, ending)
    for (const [index, way] of ways.entries()) {
      t.equal(write(next({ ...facts, way }, ending)), steps[index], `${way}: ${ending}`)
      const open = write(next({ ...facts, way, mayBeStored: true }, ending))
      const asked = way === 'lookUpAlone' ? 'lookUpAlone~' : 'lookUp~'
      t.equal(open, steps[index] === 'fails' ? asked : steps[index], `${way}, perhaps stored: ${ending}`)
    }
  }
})

t.test('a row that a look-up has not found is inserted with fewer others each time', async (t) => {
  const afterwards = (insertWay: Way) => write(next({ ...facts, way: 'lookUp', insertWay }, 'absent'))
  t.strictSame((['together', 'carefully', 'again'] as const).map(afterwards), ['carefully', 'alone', 'alone'])
})

t.test('a row fails that is refused, or left out even alone, and is not found', async (t) => {
  const notFound = (more: object) => write(next({ ...facts, way: 'lookUp', ...more }, 'absent'))
  t.equal(notFound({ refusal: new Error() }), 'fails')
  t.equal(notFound({ refusal: new Error(), mayBeStored: true }), 'fails')
  t.equal(notFound({ insertWay: 'alone' }), 'fails')
  t.equal(notFound({ insertWay: 'alone', mayBeStored: true }), 'patiently~')
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
