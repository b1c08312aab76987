/** The fields of the log are those that docs/monitoring.md describes. Each service of the tests checks its own lines, too. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findUndescribed } from '../harness/service/log-fields.ts'
import { errorFields, logFields } from '../src/log-fields.ts'

const root = join(import.meta.dirname, '..')

t.test('a field that is not described is found, and one of another type, also in an error', (t) => {
  const good = { time: 1, level: 30, msg: 'm', durationMs: 0.5, faults: ['f'] }
  const cause = { type: 'Error', cause: { type: 'DatabaseError', code: '23514' } }
  t.strictSame(findUndescribed({ ...good, cause }), [])
  const cases: [line: object, found: string][] = [
    [{ ...good, colour: 'red' }, 'colour: "red"'],
    [{ ...good, time: 0.5 }, 'time: 0.5'],
    [{ ...good, msg: 1 }, 'msg: 1'],
    [{ ...good, faults: [1] }, 'faults: [1]'],
    [{ ...good, cause: 'text' }, 'cause: "text"'],
    [{ ...good, toString: 'own' }, 'toString: "own"'],
    [{ ...good, cause: { ...cause, cause: { type: 'Error', detail: 'd' } } }, 'detail: "d"'],
    [{ ...good, err: { type: 'Error', code: 0.5 } }, 'code: 0.5']
  ]
  for (const [line, found] of cases) t.strictSame(findUndescribed(line), [found])
  t.end()
})

t.test('the sources have each field that is described', (t) => {
  const files = globSync('src/**/*.ts', { cwd: root, exclude: ['src/log-fields.ts'] })
  const sources = files.map((file) => readFileSync(join(root, file), 'utf8')).join('\n')
  for (const name of [...Object.keys(logFields), ...Object.keys(errorFields)])
    t.match(sources, new RegExp(`\\b${name}\\b['"\\\\]*[:,}\\]\\s]|\\.${name} =`), name)
  t.end()
})
