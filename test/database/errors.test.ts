/** What an error means for the rows of the statement that met it. */
import t from 'tap'
import {
  breaksRule,
  diagnose,
  isStale,
  isTimedOut,
  NoConnection,
  ResultUnknown
} from '../../src/database/errors.ts'

const where = 'PL/pgSQL function rule() line 1 at RAISE'
const report = (code: string, more: object = {}) => ({ code, severity: 'ERROR', ...more })
const meaning = (error: unknown) => diagnose(error).kind

t.test('what PostgreSQL reports, of the statement and of a trigger', async (t) => {
  const table: [codes: string, own: string, triggers: string][] = [
    ['25006 26000 42P05 53300', 'away', 'busy'],
    // A disk.
    ['53100', 'away', 'busy'],
    ['40001 40P01', 'chance', 'chance'],
    ['25001 25P02 53200 55P03 57014', 'busy', 'busy'],
    // 0A000: a rule of the table, for one.
    ['42P01 42703 42804 42883 42501 3D000 3F000 0A000', 'gone', 'broken'],
    // 42601: an expression of the table, such as a cast to ltree.
    ['58030 XX000 XX001 23502 42601', 'broken', 'broken'],
    ['22001 23514 23505 P0001 54000 ZZ001', 'refused', 'refused'],
    ['08006 08P01 40003 57P01 25P04', 'lost', 'lost']
  ]
  for (const [codes, own, triggers] of table)
    for (const code of codes.split(' ')) {
      t.equal(meaning(report(code)), own, code)
      t.equal(meaning(report(code, { where })), triggers, `${code} in a trigger`)
    }
})

t.test('a row that a policy refuses is refused, and no right is missing', async (t) => {
  const refusal = report('42501', { routine: 'ExecWithCheckOptions' })
  t.equal(meaning(refusal), 'refused')
  t.ok(breaksRule(refusal))
  t.notOk(breaksRule(report('42501')))
})

t.test('a plan is stale only if PostgreSQL could not renew it', async (t) => {
  const routine = 'RevalidateCachedQuery'
  t.equal(meaning(report('0A000', { routine })), 'away')
  t.equal(meaning(report('0A000', { routine, where })), 'busy')
  t.ok(isStale(report('0A000', { routine })))
  t.notOk(isStale(report('0A000', { routine, where })), "a trigger's own")
})

t.test('a database without transaction ids is at fault, and not a row', async (t) => {
  for (const more of [{}, { where }])
    t.equal(meaning(report('54000', { routine: 'GetNewTransactionId', ...more })), 'away')
})

t.test("a rule that excludes creates is the operator's, and its sessions are good", async (t) => {
  const rule = report('0A000', { routine: 'RewriteQuery' })
  t.equal(meaning(rule), 'gone')
  t.notOk(isStale(rule))
})

t.test('an error of the connection leaves the outcome open, unless there was no connection', async (t) => {
  t.equal(meaning(new Error('Connection terminated unexpectedly')), 'lost')
  t.equal(meaning(new ResultUnknown('the session has ended', { cause: report('22001') })), 'lost')
  t.equal(meaning(new NoConnection('none', { cause: report('53300') })), 'away')
})

t.test('an internal error leaves the outcome open only where Citus has lost a worker', async (t) => {
  for (const code of ['XX000', '58030']) {
    t.equal(meaning(report(code, { file: 'remote_transaction.c' })), 'lost')
    t.equal(meaning(report(code, { file: 'relcache.c' })), 'broken')
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
