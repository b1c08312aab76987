/** The table of verdicts, and the evidence that a failure is everybody's. */
import t from 'tap'
import { createEvidence, judge, type Verdict } from '../../src/group-commit/verdict.ts'
import { failureOf, failures, type Trouble } from '../support/scripted-store.ts'

const several = { isAlone: false, isEverybodys: false, mayBeStored: false, repeats: 0 }
const alone = { ...several, isAlone: true }
const everybodys = { ...several, isEverybodys: true }
const stored = { ...several, mayBeStored: true }

t.test('what becomes of rows that have failed', async (t) => {
  /** The verdict for several rows, for one alone, and for both where the evidence says that it is everybody's. */
  const table: [Trouble, several: Verdict, alone: Verdict, everybodys: Verdict, aloneThen: Verdict][] = [
    ['away', 'wait', 'wait', 'wait', 'wait'],
    ['gone', 'fail', 'fail', 'fail', 'fail'],
    ['refused', 'split', 'fail', 'split', 'fail'],
    ['broken', 'split', 'fail', 'fail', 'fail'],
    ['busy', 'split', 'rest', 'wait', 'wait'],
    ['lost', 'split', 'rest', 'wait', 'wait'],
    ['chance', 'repeat', 'repeat', 'wait', 'wait']
  ]
  for (const [trouble, ...expected] of table) {
    const circumstances = [several, alone, everybodys, { ...everybodys, isAlone: true }]
    const verdicts = circumstances.map((given) => judge(failures[trouble], given))
    t.strictSame(verdicts, expected, trouble)
  }
})

t.test('chance fails the same rows three times', async (t) => {
  for (const [repeats, verdict] of [
    [2, 'repeat'],
    [3, 'split']
  ] as const)
    t.equal(judge(failures.chance, { ...several, repeats }), verdict)
  t.equal(judge(failures.chance, { ...alone, repeats: 3 }), 'rest')
})

t.test(
  'a row that may be stored is asked for again whatever is broken, unless its data is refused',
  async (t) => {
    t.equal(judge(failures.gone, stored), 'wait')
    t.equal(judge(failures.broken, stored), 'split')
    t.equal(judge(failures.broken, { ...stored, isAlone: true }), 'rest')
    t.equal(judge(failures.broken, { ...stored, isEverybodys: true }), 'wait')
    t.equal(judge(failures.refused, stored), 'split')
    t.equal(judge(failures.refused, { ...stored, isAlone: true }), 'fail')
  }
)

t.test('evidence', async (t) => {
  /** How many such failures in a row are everybody's. */
  function count(trouble: Trouble, given: { isAlone?: boolean; isCutOff?: boolean; since?: number }) {
    const evidence = createEvidence()
    evidence.clear()
    for (let failed = 1; failed <= 100; failed++) {
      evidence.add(failureOf(trouble), { isAlone: false, isCutOff: false, since: 1, ...given })
      if (evidence.isEverybodys) return failed
    }
    return undefined
  }
  t.equal(count('busy', { isAlone: true }), 16)
  t.equal(count('busy', { isCutOff: true }), 3)
  t.equal(count('busy', { isCutOff: true, since: 0 }), 8, 'others were written since')
  t.equal(count('busy', {}), undefined, 'one of several rows may be the cause')
  t.equal(count('refused', { isAlone: true }), undefined)
  t.equal(count('away', { isAlone: true }), undefined)

  const evidence = createEvidence()
  for (let failed = 0; failed < 3; failed++)
    evidence.add(failureOf('busy'), { isAlone: false, isCutOff: true, since: 0 })
  evidence.clear()
  t.notOk(evidence.isEverybodys, 'something was written')
  t.equal(evidence.writes, 1)
})
