/** The line of docs/monitoring.md that explains a failure from the log. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { headers, startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/monitoring.md'), 'utf8')
const [, command = '', example = ''] = / {6}(jq -cR '.*)\n\n {4}(\{.*\})\n/.exec(page) ?? []

/** Where there is no jq, the line is not run. */
const skip = spawnSync('jq', ['--version']).error ? 'jq is not on the PATH' : false

/** Runs the line over lines of a log, with another filter if one is given. */
function explain(t: Test, log: string, filter = 'select(.level >= 40)') {
  const changed = command.replace('select(.level >= 40)', filter)
  const { status, stdout, stderr } = spawnSync('sh', ['-c', changed], { input: log, encoding: 'utf8' })
  t.strictSame([status, stderr], [0, ''])
  return stdout.split('\n').flatMap((line) => (line ? [JSON.parse(line)] : []))
}

t.test('a 503: who got it, when, after how long, and why, as the page shows it', { skip }, async (t) => {
  const away = 'postgres://nobody@127.0.0.1:1/none'
  const service = await startService(t, { DATABASE_URL: away, WRITE_DEADLINE_MS: '1000' })
  const answer = await service.post(
    { id: 1, name: 'n' },
    { headers: { ...headers, 'x-request-id': 'mine', 'x-forwarded-for': '198.51.100.17' } }
  )
  t.equal(answer.headers['error-name'], 'DeadlineExceeded')
  const isMine = ({ requestId }: { requestId?: string }) => requestId === 'mine'
  const logged = await until('it is logged', () => service.log().find(isMine))
  const noise = 'plant-store: not a line of JSON\n'
  const found = explain(t, `${noise}${service.logText()}${noise}`)
  const mine = found.filter(isMine)
  const at = new Date(Math.floor(logged.time / 1_000) * 1_000).toISOString().replace('.000', '')
  const [{ why: reasons }] = mine
  t.strictSame(mine, [
    {
      at,
      caller: 'tester',
      errorName: 'DeadlineExceeded',
      requestId: 'mine',
      durationMs: logged.durationMs,
      from: '198.51.100.17',
      msg: 'the deadline passed',
      why: [
        'the deadline has passed; the row is not stored',
        'there is no connection to the database',
        // On a slow machine, the deadline may pass while a connection is being opened.
        reasons[2]
      ]
    }
  ])
  t.match(reasons[2], /^connect ECONNREFUSED 127.0.0.1:1$|^no connection was free in time$/)
  const { at: _, requestId, caller, durationMs, why, ...shown } = JSON.parse(example)
  t.strictSame(Object.keys(mine[0]), Object.keys(JSON.parse(example)), 'in the same order')
  t.has(mine[0], shown)
  t.strictSame(why.slice(0, 2), reasons.slice(0, 2))
})

t.test('a refused plant and a fault of the table: the rule, the SQLSTATE', { skip }, async (t) => {
  const service = await startService(t)
  await service.rows('alter table plants add constraint no_rose check (name <> $$rose$$)')
  await service.post({ id: 1, name: 'rose' })
  await service.rows('alter table plants rename column tag to label')
  await service.post({ id: 2, name: 'n' })
  await until('both are logged', () => service.log().filter(({ failure }) => failure > 0).length === 2)
  t.match(explain(t, service.logText(), 'select(.failure == 422)'), [{ why: ['23514', 'no_rose'] }])
  const found = explain(t, service.logText())
  t.match(found, [{ errorName: 'Internal', why: ['internal error', '42703'] }])
  t.strictSame(explain(t, service.logText(), 'select(.caller == "nobody")'), [])
})
