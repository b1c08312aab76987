/** The progress of a connection's client, check by check: what is awaited, what has come, and what comes of it. */
import type { Socket } from 'node:net'
import t from 'tap'
import { type Awaited, ClientProgress } from '../../src/connections/client-progress.ts'

const limits = { headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, keepAliveTimeout: 620_000 }

/** One check: its time in s, what is awaited, and what has changed since the last one. */
interface Check {
  at: number
  awaited?: Awaited
  count?: number
  isStopping?: boolean
  read?: number
  accepted?: number
  taken?: number
}

const idle = (at: number, count = 0): Check => ({ at, awaited: 'request', count })
const header = (at: number, count = 1): Check => ({ at, awaited: 'header', count })
const firstByte = (at: number, count = 1): Check => ({ at, awaited: 'first byte', count })
const body = (at: number, isStopping = false): Check => ({ at, awaited: 'body', count: 1, isStopping })
const end = (at: number, seen: Omit<Check, 'at'> = {}): Check => ({ at, awaited: 'end', ...seen })
/** What the kernel has accepted, or the client taken. */
const accepted = (at: number, accepted: number): Check => ({ at, accepted })
const taken = (at: number, taken: number): Check => ({ at, taken })

const cases: [title: string, checks: Check[], expected: string | undefined][] = [
  ['a new connection may be silent for the time of a header', [idle(0), idle(10)], undefined],
  ['beyond it, it is closed', [idle(0), idle(10.1)], 'silent'],
  ['a connection that has had a request may be idle for longer', [idle(0, 1), idle(620, 1)], undefined],
  ['but not for ever', [idle(0, 1), idle(621, 1)], 'silent'],
  ['a header is late after its time', [header(0), header(11)], 'late'],
  ['the header of another request has its own time', [header(0), header(11, 2)], undefined],
  [
    'a header that was not read has its time anew',
    [header(0), { at: 9, count: 1 }, header(11), header(20)],
    undefined
  ],
  ['the first byte of a body is late after the time of a header', [firstByte(0), firstByte(11)], 'late'],
  [
    'the first byte has its time from the end of the header',
    [header(0), firstByte(9), firstByte(18)],
    undefined
  ],
  [
    'first bytes of two bodies have a time each',
    [firstByte(0), firstByte(9, 2), firstByte(18, 2)],
    undefined
  ],
  ['a body has the time of a request', [header(0), body(9), body(30)], undefined],
  ['which begins with its header', [header(0), body(9), body(31)], 'late'],
  ['while the server stops, a request has the time of a header', [body(0, true), body(11, true)], 'late'],
  [
    'a client that sends for ever after its last response is closed',
    [end(0), end(15, { read: 1 }), end(31, { read: 2 })],
    'silent'
  ],
  ['one that is silent for a second, too', [end(0), end(1)], 'silent'],
  [
    'but not while it may take the response',
    [end(0, { accepted: 20_000, taken: 0 }), end(5, { taken: 1_000 })],
    undefined
  ],
  [
    'while the server stops, the kernel delivers the rest without this process',
    [
      end(0, { accepted: 20_000, isStopping: true }),
      end(2, { taken: 1_000, read: 1, isStopping: true }),
      end(2.1, { taken: 2_000, read: 2, isStopping: true })
    ],
    'silent'
  ],
  [
    'a client that takes nothing is stalled',
    [accepted(0, 20_000), taken(1, 0), taken(31, 0), taken(31.1, 0)],
    'stalled'
  ],
  [
    'one that takes a little is not',
    [accepted(0, 20_000), taken(1, 0), taken(29, 1), taken(40, 1)],
    undefined
  ],
  [
    'nor one of which the kernel was not asked, as after a pause of this process',
    [accepted(0, 20_000), taken(1, 0), { at: 100 }],
    undefined
  ],
  ['nor one to which little was sent', [accepted(0, 16_383), taken(100, 0)], undefined],
  [
    'a finished connection waits until the kernel has told that nothing is left, which nobody would ask for later',
    [end(0, { accepted: 100 }), end(1), end(3, { taken: 99 })],
    undefined
  ],
  ['then it is closed', [end(0, { accepted: 100 }), end(1, { taken: 99 }), end(3, { taken: 100 })], 'silent']
]

for (const [title, checks, expected] of cases) {
  t.test(title, async (t) => {
    const socket = { bytesRead: 0, writableLength: 0, _handle: { bytesWritten: 0, writeQueueSize: 0, fd: 3 } }
    const progress = new ClientProgress(socket as unknown as Socket)
    const results = checks.map(
      ({ at, awaited = 'nothing', count = 0, isStopping = false, read, accepted, taken }) => {
        const now = 1_000_000 + at * 1_000
        socket.bytesRead = read ?? socket.bytesRead
        socket._handle.bytesWritten = accepted ?? socket._handle.bytesWritten
        if (taken !== undefined) progress.recordTaken(taken, now)
        return progress.check(now, awaited, count, isStopping, limits)
      }
    )
    t.equal(results.at(-1), expected)
    t.notOk(results.slice(0, -2).some(Boolean))
  })
}

t.test('of a client that has gone nothing is unread', (t) => {
  t.equal(new ClientProgress({ _handle: null } as unknown as Socket).unreadBytes, 0)
  t.end()
})
