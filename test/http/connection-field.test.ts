/** The `connection` field of a response, one call a case. */
import t from 'tap'
import { findConnectionField } from '../../src/http/connection-field.ts'

const cases: [title: string, args: Parameters<typeof findConnectionField>, expected: string | undefined][] = [
  ['Node decides for HTTP/1.1', [false, true, false, '1.1'], undefined],
  ['the last response closes', [true, true, false, '1.1'], 'close'],
  ['the last response closes, even if the client may wait for 100', [true, true, true, '1.1'], 'close'],
  ['the last response closes for HTTP/1.0', [true, true, false, '1.0'], 'close'],
  ['the last response closes if the client asked for it', [true, false, true, '1.0'], 'close'],
  ['a body that may come before its 100 keeps the connection', [false, true, true, '1.1'], 'keep-alive'],
  ['HTTP/1.0 is told that its connection is kept', [false, true, false, '1.0'], 'keep-alive'],
  ['a client that asked to close is not told otherwise', [false, false, false, '1.1'], undefined],
  ['nor one that may wait for 100', [false, false, true, '1.1'], undefined],
  ['nor one of HTTP/1.0', [false, false, false, '1.0'], undefined]
]

for (const [title, args, expected] of cases) {
  t.test(title, async (t) => {
    t.equal(findConnectionField(...args), expected)
  })
}
