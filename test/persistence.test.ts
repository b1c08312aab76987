/** What happens to a connection after a response. test/promises proves it on real sockets. */
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { Failure } from '../src/failures.ts'
import { decidePersistence, type Persistence } from '../src/http/persistence.ts'

interface Case {
  /** The body has arrived. */
  complete?: boolean
  headers?: IncomingMessage['headers']
  httpVersion?: string
  shouldKeepAlive?: boolean
  isLeaving?: boolean
  isNewest?: boolean
  isOver?: boolean
  isHalfClosed?: boolean
  cutOffBy?: Failure
}

const decide = ({ isLeaving = false, isNewest = true, shouldKeepAlive = true, ...rest }: Case) => {
  const { complete = true, headers = {}, httpVersion = '1.1' } = rest
  const { isOver = false, isHalfClosed = false, cutOffBy } = rest
  const request = { complete, headers, httpVersion } as IncomingMessage
  const connection = { newest: isNewest ? request : undefined, isOver, isHalfClosed, cutOffBy }
  return decidePersistence(connection, request, { shouldKeepAlive }, isLeaving)
}

const incomplete = { complete: false }
const expecting = { headers: { expect: '100-continue' } }
const cutOff = { ...incomplete, isOver: true, cutOffBy: new Failure('RequestTimeout') }

const cases: [title: string, given: Case, expected: Persistence][] = [
  ['a request', {}, 'keep'],
  ['its body was refused, and is still arriving', incomplete, 'keep'],
  ['the client expects 100, and the body has arrived', expecting, 'keep'],
  [
    'the client expects 100, and was refused before its body',
    { ...incomplete, ...expecting },
    'close'
  ],
  ['HTTP/1.0 does not define 100', { ...incomplete, ...expecting, httpVersion: '1.0' }, 'keep'],
  ['the client asks to close', { isOver: true, shouldKeepAlive: false }, 'close'],
  [
    'the client asks to close, and its body is still arriving',
    { ...incomplete, isOver: true },
    'close after the body'
  ],
  ['the body was cut off', cutOff, 'close'],
  ['the client has half-closed', { isHalfClosed: true }, 'close'],
  [
    'the client has half-closed after a further request',
    { isHalfClosed: true, isNewest: false },
    'keep'
  ],
  ['the client has half-closed within its body', { ...incomplete, isHalfClosed: true }, 'keep'],
  ['the server shuts down', { isLeaving: true }, 'close'],
  [
    'the server shuts down while the body is arriving',
    { ...incomplete, isLeaving: true },
    'close after the body'
  ],
  [
    'the server shuts down, and a further request was read',
    { isLeaving: true, isNewest: false },
    'keep'
  ],
  [
    'something unreadable has followed, whose refusal is the last response',
    { isOver: true, isNewest: false },
    'keep'
  ]
]

t.test('a connection is kept, closes, or closes after the body', async (t) => {
  for (const [title, given, expected] of cases) t.equal(decide(given), expected, title)
})

t.test(
  'without a connection, as for injected requests, the response says what happens',
  async (t) => {
    const request = { complete: true, headers: {}, httpVersion: '1.1' }
    t.equal(decidePersistence(undefined, request, { shouldKeepAlive: true }, true), 'keep')
    t.equal(decidePersistence(undefined, request, { shouldKeepAlive: false }, true), 'close')
  }
)
