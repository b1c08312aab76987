/** What an error of PostgreSQL means for the rows of the statement that met it. */
import t from 'tap'
import { breaksRule, diagnose, NoConnection } from '../src/database/errors.ts'

const where = 'PL/pgSQL function rule() line 1 at RAISE'
const report = (code: string, more: object = {}) => ({ code, severity: 'ERROR', ...more })

/** Codes, and what they mean as the statement's own error and as that of a trigger. */
const codes: [codes: string, own: string, ofTrigger: string][] = [
  ['25006 26000 42P05 53100 53300', 'unavailable', 'retryable'],
  ['25001 25P02 40001 40P01 53200 55P03 57014', 'retryable', 'retryable'],
  ['42P01 42703 42804 42883 42501 3D000 3F000 0A000', 'schemaMismatch', 'serverFault'],
  ['58030 XX000 XX001 23502 42601', 'serverFault', 'serverFault'],
  ['22001 23514 23505 P0001 54000 ZZ001', 'refused', 'refused'],
  ['08006 08P01 40003 57P01 25P04', 'unknown', 'unknown']
]
/** Errors whose code alone would say something else. */
const others: [title: string, error: object, kind: string][] = [
  [
    'a row that row security refuses',
    report('42501', { routine: 'ExecWithCheckOptions' }),
    'serverFault'
  ],
  ['a rule that excludes creates', report('0A000', { routine: 'RewriteQuery' }), 'schemaMismatch'],
  ['a plan that is stale', report('0A000', { routine: 'RevalidateCachedQuery' }), 'unavailable'],
  [
    "a trigger's stale plan",
    report('0A000', { routine: 'RevalidateCachedQuery', where }),
    'retryable'
  ],
  ['no transaction ids left', report('54000', { routine: 'GetNewTransactionId' }), 'unavailable'],
  [
    'none left, in a trigger',
    report('54000', { routine: 'GetNewTransactionId', where }),
    'unavailable'
  ],
  ['a worker that Citus has lost', report('XX000', { file: 'remote_transaction.c' }), 'unknown'],
  ['a disk of such a worker', report('58030', { file: 'connection_management.c' }), 'unknown'],
  ['an internal error elsewhere', report('XX000', { file: 'relcache.c' }), 'serverFault'],
  ['a connection that breaks', new Error('Connection terminated unexpectedly'), 'unknown'],
  ['a session that has ended', new Error('ended', { cause: report('22001') }), 'unknown'],
  ['no connection', new NoConnection('none', { cause: report('53300') }), 'unavailable']
]

t.test('an error has a kind, by its code, its routine and where it was raised', async (t) => {
  for (const [list, own, ofTrigger] of codes)
    for (const code of list.split(' ')) {
      t.equal(diagnose(report(code)).kind, own, code)
      t.equal(diagnose(report(code, { where })).kind, ofTrigger, `${code} in a trigger`)
    }
  for (const [title, error, kind] of others) t.equal(diagnose(error).kind, kind, title)
})

t.test('which errors are a broken rule', async (t) => {
  for (const code of ['22001', '23505', '44000', '54000', 'P0001', 'ZZ001', '72000'])
    t.ok(breaksRule(report(code)), code)
  t.ok(breaksRule(report('23514', { constraint: 'rule' })), 'a check')
  t.notOk(breaksRule(report('23514')), 'no partition')
  t.ok(breaksRule(report('23514', { where })), 'a check that a trigger raises')
  const inside = `SQL statement "insert into audit"\n${where.replace('RAISE', 'SQL statement')}`
  t.notOk(
    breaksRule(report('23514', { where: inside, constraint: 'rule' })),
    'a check of another table'
  )
  t.notOk(
    breaksRule(report('22012', { where: where.replace('RAISE', 'assignment') })),
    'an expression'
  )
  for (const code of ['42P01', '42501', 'XX000', '55P03']) t.notOk(breaksRule(report(code)), code)
  t.notOk(breaksRule(report('42501', { routine: 'ExecWithCheckOptions' })), 'row security')
})

/** The line of a RAISE in PostgreSQL's languages (its plpgsql-18.mo files). */
const raises = [
  'PL/pgSQL function rule() line 1 at RAISE',
  'PL/pgSQL-Funktion rule() Zeile 1 bei RAISE',
  'función PL/pgSQL rule() en la línea 1 en RAISE',
  'PL/pgSQL関数rule()の1行目 - RAISE',
  'PL/pgSQL ფუნქცია rule() ხაზზე 1 RAISE-სთან',
  'PL/pgSQL 함수 "rule()" 의 1번째 RAISE',
  'функция PL/pgSQL rule(), строка 1, оператор RAISE',
  'rule() PL/pgSQL fonksiyonu, 1. satır, RAISE içinde',
  '在RAISE的第1行的PL/pgSQL函数rule()'
]

/** First lines of what a trigger does not raise. */
const faults = [
  'PL/pgSQL function rule() line 1 at assignment',
  'PL/pgSQL function "RAISE"() line 1 at assignment',
  'PL/pgSQL function x."a RAISE"() line 1 at SQL statement',
  `SQL statement "insert into notes values ('a RAISE b')"`,
  'unnamed portal with a RAISE'
]

t.test(
  'what a trigger raises with the code of a check is a broken rule, in any language',
  async (t) => {
    for (const where of raises)
      t.ok(breaksRule(report('23514', { where: `${where}\nmore` })), where)
    for (const where of faults) {
      t.notOk(breaksRule(report('23514', { where: `${where}\n${raises[0]}` })), where)
      t.ok(breaksRule(report('23514', { where, routine: 'exec_stmt_raise' })), 'the routine tells')
    }
  }
)
