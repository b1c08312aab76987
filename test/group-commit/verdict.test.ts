/** The table of verdicts, and the evidence that a failure is everybody's. */
import t from 'tap'
import { createEvidence, judge as judgeRow, type Verdict } from '../../src/group-commit/verdict.ts'
import { failureOf, failures, type Trouble } from '../support/scripted-store.ts'

const several = { isAlone: false, isEverybodys: false, mayBeStored: false, repeats: 0 }
const judge = (failure: (typeof failures)[Trouble], { isAlone, isEverybodys, ...row }: typeof several) =>
  judgeRow(failure, row, isAlone, isEverybodys)
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
    ['busy', 'split', 'rest', 'wait', 'rest'],
    ['lost', 'split', 'rest', 'wait', 'rest'],
    ['chance', 'repeat', 'repeat', 'wait', 'rest']
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
  'a row that may be stored is looked up again whatever is broken, unless its data is refused',
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
  function count(trouble: Trouble, isAlone: boolean) {
    const evidence = createEvidence()
    evidence.clear()
    for (let failed = 1; failed <= 100; failed++) {
      evidence.add(failureOf(trouble), isAlone)
      if (evidence.isEverybodys()) return failed
    }
    return undefined
  }
  t.equal(count('busy', true), 16)
  t.equal(count('busy', false), undefined, 'one of several rows may be the cause')
  t.equal(count('refused', true), undefined)
  t.equal(count('away', true), undefined)

  const evidence = createEvidence()
  const fail = (times: number) => {
    for (let count = 0; count < times; count++) evidence.add(failureOf('busy'), true)
  }
  const before = evidence.now
  fail(1)
  const between = evidence.now
  fail(15)
  t.ok(evidence.isEverybodys(before))
  t.notOk(evidence.isEverybodys(between), 'one that failed before says nothing of rows that came then')
  t.notOk(evidence.wasWritten(before))
  evidence.clear()
  t.ok(evidence.wasWritten(between))
  t.notOk(evidence.isEverybodys(before), 'something was written')
  fail(15)
  t.notOk(evidence.isEverybodys())
  fail(1)
  t.ok(evidence.isEverybodys())
})
