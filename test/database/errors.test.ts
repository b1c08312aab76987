/** What an error means for the rows of the statement that met it. */
import t from 'tap'
import {
  breaksRule,
  diagnose,
  isStale,
  isTimedOut,
  NoConnection,
  OutcomeUnknown
} from '../../src/database/errors.ts'

const where = 'PL/pgSQL function rule() line 1 at RAISE'
const report = (code: string, more: object = {}) => ({ code, severity: 'ERROR', ...more })
const meaning = (error: unknown) => {
  const { written, whose, again } = diagnose(error)
  return [written, whose, again].join(' ')
}

t.test('what PostgreSQL reports, of the statement and of a trigger', async (t) => {
  const table: [codes: string, own: string, triggers: string][] = [
    ['25006 26000 42P05 53300', 'no database later', 'no unclear later'],
    ['40001 40P01', 'no unclear now', 'no unclear now'],
    ['25001 25P02 53100 53200 55P03 57014', 'no unclear later', 'no unclear later'],
    ['42P01 42703 42883 42501 3D000 3F000 0A000', 'no database never', 'no unclear never'],
    ['58030 XX000 XX001 23502', 'no unclear never', 'no unclear never'],
    ['22001 23514 23505 P0001 54000 ZZ001', 'no row never', 'no row never'],
    ['08006 08P01 40003 57P01 25P04', 'maybe unclear later', 'maybe unclear later']
  ]
  for (const [codes, own, triggers] of table)
    for (const code of codes.split(' ')) {
      t.equal(meaning(report(code)), own, code)
      t.equal(meaning(report(code, { where })), triggers, `${code} in a trigger`)
    }
})

t.test('a row that a policy refuses is not a right that is missing', async (t) => {
  t.equal(meaning(report('42501', { routine: 'ExecWithCheckOptions' })), 'no unclear never')
})

t.test('a database without transaction ids is at fault, and not a row', async (t) => {
  for (const more of [{}, { where }])
    t.equal(meaning(report('54000', { routine: 'GetNewTransactionId', ...more })), 'no database later')
})

t.test('a plan is stale only if PostgreSQL says so in planning it again', async (t) => {
  const stale = { routine: 'RevalidateCachedQuery' }
  t.equal(meaning(report('0A000', stale)), 'no database later')
  t.ok(isStale(report('0A000', stale)))
  t.notOk(isStale(report('0A000', { ...stale, where })), "a trigger's own")
})

t.test("a rule that excludes creates is the operator's, and its sessions are good", async (t) => {
  const rule = report('0A000', { routine: 'RewriteQuery' })
  t.equal(meaning(rule), 'no database never')
  t.notOk(isStale(rule))
})

t.test('an error of the connection leaves the outcome open, unless there was no connection', async (t) => {
  t.equal(meaning(new Error('Connection terminated unexpectedly')), 'maybe unclear later')
  t.equal(
    meaning(new OutcomeUnknown('the session has ended', { cause: report('22001') })),
    'maybe unclear later'
  )
  t.equal(meaning(new NoConnection('none', { cause: report('53300') })), 'no database later')
})

t.test('an internal error leaves the outcome open only where Citus has lost a worker', async (t) => {
  for (const code of ['XX000', '58030']) {
    t.equal(meaning(report(code, { file: 'remote_transaction.c' })), 'maybe unclear later')
    t.equal(meaning(report(code, { file: 'relcache.c' })), 'no unclear never')
  }
})

t.test('some errors make a surviving session useless, unless a trigger raised them', async (t) => {
  for (const code of ['25006', '26000', '42P05']) {
    t.ok(isStale(report(code)))
    t.notOk(isStale(report(code, { where })))
  }
  t.notOk(isStale(report('08006')))
  t.notOk(isStale(new Error('no code')))
})

t.test('a session that was ended by a time-out says nothing about others', async (t) => {
  for (const code of ['25P03', '25P04', '57P05']) t.ok(isTimedOut(report(code, { severity: 'FATAL' })))
  t.notOk(isTimedOut(report('57P01', { severity: 'FATAL' })))
})

t.test('some classes of codes mean that the data breaks a rule, those of custom triggers too', async (t) => {
  for (const code of ['22001', '23514', '44000', '54000', 'P0001', 'ZZ001', '72000'])
    t.ok(breaksRule(report(code)))
  for (const code of ['42P01', 'XX000', '55P03']) t.notOk(breaksRule(report(code)))
})
