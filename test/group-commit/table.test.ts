/** The table: what comes next of a row that an attempt has not decided. */
import t from 'tap'
import { Row } from '../../src/group-commit/row.ts'
import { type Facts, next, type Result, steps } from '../../src/group-commit/table.ts'

type Step = keyof typeof steps

const several = {
  looksUp: false,
  isAlone: false,
  mayBeStored: false,
  refusal: undefined,
  repeats: 0,
  misses: 0
}

/** After an insert of several rows, of one; after a look-up of several, of one; and after each of one that may be stored. */
const table = `
  nothing | find   | find     | insert | insert | find     | insert
  away    | wait   | wait     | wait   | wait   | wait     | wait
  gone    | fail   | fail     | fail   | fail   | restFind | restFind
  chance  | repeat | repeat   | part   | rest   | repeat   | rest
  busy    | part   | rest     | part   | rest   | rest     | rest
  lost    | find   | restFind | part   | rest   | restFind | rest
  broken  | part   | find     | part   | fail   | find     | restFind
  refused | part   | find     | part   | fail   | find     | restFind`

t.test('what comes next, by what an attempt has shown', async (t) => {
  const columns: [title: string, Partial<Facts>][] = [
    ['an insert of several', {}],
    ['an insert of one', { isAlone: true }],
    ['a look-up of several', { looksUp: true }],
    ['a look-up of one', { looksUp: true, isAlone: true }],
    ['an insert of one that may be stored', { isAlone: true, mayBeStored: true }],
    ['a look-up of one that may be stored', { looksUp: true, isAlone: true, mayBeStored: true }]
  ]
  for (const line of table.trim().split('\n')) {
    const [result, ...nexts] = line.split('|').map((text) => text.trim()) as [Result, ...Step[]]
    for (const [index, [title, facts]] of columns.entries())
      t.equal(next({ ...several, ...facts }, result), steps[nexts[index] as Step], `${title}: ${result}`)
  }
})

t.test('chance fails the same rows three times', async (t) => {
  t.equal(next({ ...several, repeats: 2 }, 'chance'), steps.repeat)
  t.equal(next({ ...several, repeats: 3 }, 'chance'), steps.part)
  t.equal(next({ ...several, isAlone: true, repeats: 3 }, 'chance'), steps.rest)
})

t.test('a row that is refused, and not found, has failed, even if it may be stored', async (t) => {
  for (const mayBeStored of [false, true])
    t.equal(next({ ...several, looksUp: true, refusal: new Error(), mayBeStored }, 'nothing'), steps.fail)
})

t.test('a row that inserts leave out, and that is not found, is tried three times more', async (t) => {
  const nexts = [0, 1, 3, 4].map((misses) => next({ ...several, looksUp: true, misses }, 'nothing'))
  t.same(nexts, [steps.insert, steps.insert, steps.insert, steps.fail])
})

t.test('a row enters no state from one that cannot be before it', async (t) => {
  const row = new Row({ id: 1n, bytes: 1 }, 0, String, String)
  t.throws(() => row.rest(() => {}), { message: 'a row that is new cannot be resting' })
})
