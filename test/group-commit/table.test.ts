/** The table: what comes next of a row that an attempt has not decided. */
import t from 'tap'
import { type Facts, type Next, next, type Result } from '../../src/group-commit/table.ts'

const several: Facts = {
  looksUp: false,
  isAlone: false,
  mayBeStored: false,
  isRefused: false,
  repeats: 0,
  misses: 0
}
const alone = { ...several, isAlone: true }
const find = { ...several, looksUp: true }
const findAlone = { ...find, isAlone: true }
const stored = { mayBeStored: true }

/** What comes next by the result, in these circumstances; and, if that differs, of a row that may be stored. */
const table: Record<string, [row: Facts, next: Record<Result, Next | [Next, ifStored: Next]>]> = {
  'an insert of several rows': [
    several,
    {
      nothing: 'find',
      away: 'wait',
      gone: ['fail', 'rest, find'],
      chance: 'repeat',
      lost: 'find',
      busy: 'part',
      broken: 'part',
      refused: 'part'
    }
  ],
  'an insert of one row': [
    alone,
    {
      nothing: 'find',
      away: 'wait',
      gone: ['fail', 'rest, find'],
      chance: 'repeat',
      lost: 'rest, find',
      busy: 'rest',
      broken: 'find',
      refused: 'find'
    }
  ],
  'a look-up of several rows': [
    find,
    {
      nothing: 'insert',
      away: 'wait',
      gone: ['fail', 'rest, find'],
      chance: 'part',
      lost: 'part',
      busy: 'part',
      broken: 'part',
      refused: 'part'
    }
  ],
  'a look-up of one row': [
    findAlone,
    {
      nothing: 'insert',
      away: 'wait',
      gone: ['fail', 'rest, find'],
      chance: 'rest',
      lost: 'rest',
      busy: 'rest',
      broken: ['fail', 'rest, find'],
      refused: ['fail', 'rest, find']
    }
  ]
}

for (const [title, [row, expected]] of Object.entries(table))
  t.test(title, async (t) => {
    for (const [result, nexts] of Object.entries(expected) as [Result, Next | [Next, Next]][]) {
      const [usual, ifStored] = Array.isArray(nexts) ? nexts : [nexts, nexts]
      t.equal(next(row, result), usual, result)
      t.equal(next({ ...row, ...stored }, result), ifStored, `${result}, and it may be stored`)
      if (result !== 'nothing')
        t.equal(next({ ...row, isRefused: true }, result), usual, `${result}, and it was refused`)
    }
  })

t.test('chance fails the same rows three times', async (t) => {
  for (const [row, last] of [
    [several, 'part'],
    [alone, 'rest']
  ] as const) {
    t.equal(next({ ...row, repeats: 2 }, 'chance'), 'repeat')
    t.equal(next({ ...row, repeats: 3 }, 'chance'), last)
  }
})

t.test('a row that is refused, and not found, has failed', async (t) => {
  for (const row of [find, findAlone, { ...find, ...stored }])
    t.equal(next({ ...row, isRefused: true }, 'nothing'), 'fail')
})

t.test('a row that inserts leave out, and that is not found, is tried alone three times more', async (t) => {
  for (const [misses, expected] of [
    [0, 'insert'],
    [1, 'insert'],
    [3, 'insert'],
    [4, 'fail']
  ] as const)
    for (const row of [find, { ...find, ...stored }]) t.equal(next({ ...row, misses }, 'nothing'), expected)
})
