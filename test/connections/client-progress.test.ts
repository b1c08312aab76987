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

/** Two checks that see the same, the second after this time in s. */
const twice = (at: number, seen: Omit<Check, 'at'>): Check[] => [
  { at: 0, ...seen },
  { at, ...seen }
]

const cases: [title: string, checks: Check[], expected: string | undefined][] = [
  ['a new connection may be silent for the time of a header', twice(10, { awaited: 'request' }), undefined],
  ['beyond it, it is closed', twice(10.1, { awaited: 'request' }), 'silent'],
  [
    'a connection that has had a request may be idle for longer',
    twice(620, { awaited: 'request', count: 1 }),
    undefined
  ],
  ['but not for ever', twice(621, { awaited: 'request', count: 1 }), 'silent'],
  ['a header is late after its time', twice(11, { awaited: 'header', count: 1 }), 'late'],
  [
    'the header of another request has its own time',
    [
      { at: 0, awaited: 'header', count: 1 },
      { at: 11, awaited: 'header', count: 2 }
    ],
    undefined
  ],
  [
    'a header that was not read has its time anew',
    [
      { at: 0, awaited: 'header', count: 1 },
      { at: 9, awaited: 'nothing', count: 1 },
      { at: 11, awaited: 'header', count: 1 },
      { at: 20, awaited: 'header', count: 1 }
    ],
    undefined
  ],
  [
    'the first byte of a body is late after the time of a header',
    twice(11, { awaited: 'first byte', count: 1 }),
    'late'
  ],
  [
    'the first byte has its time from the end of the header',
    [
      { at: 0, awaited: 'header', count: 1 },
      { at: 9, awaited: 'first byte', count: 1 },
      { at: 18, awaited: 'first byte', count: 1 }
    ],
    undefined
  ],
  [
    'the first bytes of two bodies have a time each',
    [
      { at: 0, awaited: 'first byte', count: 1 },
      { at: 9, awaited: 'first byte', count: 2 },
      { at: 18, awaited: 'first byte', count: 2 }
    ],
    undefined
  ],
  [
    'a body has the time of a request',
    [
      { at: 0, awaited: 'header', count: 1 },
      { at: 9, awaited: 'body', count: 1 },
      { at: 30, awaited: 'body', count: 1 }
    ],
    undefined
  ],
  [
    'which begins with its header',
    [
      { at: 0, awaited: 'header', count: 1 },
      { at: 9, awaited: 'body', count: 1 },
      { at: 31, awaited: 'body', count: 1 }
    ],
    'late'
  ],
  [
    'while the server stops, a request has the time of a header',
    twice(11, { awaited: 'body', count: 1, isStopping: true }),
    'late'
  ],
  [
    'a client that sends for ever after its last response is closed',
    [
      { at: 0, awaited: 'end' },
      { at: 15, awaited: 'end', read: 1 },
      { at: 31, awaited: 'end', read: 2 }
    ],
    'silent'
  ],
  ['one that is silent for a second, too', twice(1, { awaited: 'end' }), 'silent'],
  [
    'but not while it may take the response',
    [
      { at: 0, awaited: 'end', accepted: 20_000, taken: 0 },
      { at: 5, awaited: 'end', taken: 1_000 }
    ],
    undefined
  ],
  [
    'while the server stops, the kernel delivers the rest without this process',
    [
      { at: 0, awaited: 'end', accepted: 20_000, isStopping: true },
      { at: 2, awaited: 'end', taken: 1_000, read: 1, isStopping: true },
      { at: 2.1, awaited: 'end', taken: 2_000, read: 2, isStopping: true }
    ],
    'silent'
  ],
  [
    'a client that takes nothing is stalled',
    [
      { at: 0, accepted: 20_000 },
      { at: 1, taken: 0 },
      { at: 31, taken: 0 },
      { at: 31.1, taken: 0 }
    ],
    'stalled'
  ],
  [
    'one that takes a little is not',
    [
      { at: 0, accepted: 20_000 },
      { at: 1, taken: 0 },
      { at: 29, taken: 1 },
      { at: 40, taken: 1 }
    ],
    undefined
  ],
  [
    'nor one of which the kernel was not asked, as after a pause of this process',
    [{ at: 0, accepted: 20_000 }, { at: 1, taken: 0 }, { at: 100 }],
    undefined
  ],
  [
    'nor one to which little was sent',
    [
      { at: 0, accepted: 16_383 },
      { at: 100, taken: 0 }
    ],
    undefined
  ],
  [
    'a finished connection waits until the kernel has told that nothing is left, which nobody would ask for later',
    [
      { at: 0, awaited: 'end', accepted: 100 },
      { at: 1, awaited: 'end' },
      { at: 3, awaited: 'end', taken: 99 }
    ],
    undefined
  ],
  [
    'then it is closed',
    [
      { at: 0, awaited: 'end', accepted: 100 },
      { at: 1, awaited: 'end', taken: 99 },
      { at: 3, awaited: 'end', taken: 100 }
    ],
    'silent'
  ]
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
