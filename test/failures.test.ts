/**
 * Promise 2: whatever a handler or a hook throws, the client gets a failure of the catalogue, and
 * learns nothing of the cause.
 */
import t from 'tap'
import { Failure } from '../src/failures.ts'
import type { PlantStore } from '../src/plants/repository.ts'
import { ask, build, create } from './support/build.ts'
import { createMemoryStore } from './support/memory-store.ts'
import { type FailureName, failure, type Reply } from './support/responses.ts'

const secret = 'hush'
const httpError = (statusCode: number) => Object.assign(new Error(secret), { statusCode })
const internal = failure('Internal', { headers: { 'write-outcome': 'unknown' } })

/** What is thrown, and what the client gets. */
const thrown: [title: string, value: unknown, reply: Reply][] = [
  ['an error', new Error(secret), internal],
  ['a text', secret, internal],
  ['nothing', undefined, internal],
  ['null', null, internal],
  ['an object', { secret }, internal],
  [
    'a status code that is no number',
    Object.assign(new Error(secret), { statusCode: 'x' }),
    internal
  ],
  ...[200, 302, 399, 500, 503, 599].map((code): [string, unknown, Reply] => [
    `an error with ${code}`,
    httpError(code),
    internal
  ]),
  ...([400, 401, 402, 408, 409, 429, 499] as const).map((code): [string, unknown, Reply] => [
    `an error with ${code}`,
    httpError(code),
    failure('MalformedRequest')
  ]),
  ...(
    [
      [403, 'NotFound'],
      [404, 'NotFound'],
      [413, 'BodyTooLarge'],
      [415, 'UnsupportedMediaType']
    ] as const
  ).map(([code, name]): [string, unknown, Reply] => [
    `an error with ${code}`,
    httpError(code),
    failure(name)
  ]),
  ...(['InvalidPlant', 'Overloaded', 'OutcomeUnknown', 'NotReady'] as FailureName[]).map(
    (name): [string, unknown, Reply] => [
      `a ${name}`,
      new Failure(name, { cause: new Error(secret) }),
      failure(name)
    ]
  ),
  [
    'a failure with a message and a field of its own',
    new Failure('NotFound', { message: 'no', headers: { allow: 'POST' } }),
    failure('NotFound', { message: 'no', headers: { allow: 'POST' } })
  ]
]

t.test('what is thrown becomes a failure of the catalogue', async (t) => {
  const app = await build(t)
  let value: unknown
  const raise = async () => {
    throw value
  }
  app.post('/handler', raise)
  app.post('/hook', { onRequest: raise }, async () => 'not reached')
  app.post(
    '/late',
    { onSend: async (request) => (request.failure ? undefined : raise()) },
    async () => 'sent'
  )
  for (const url of ['/handler', '/hook', '/late'])
    for (const [title, each, expected] of thrown) {
      value = each
      const reply = await ask(app, { method: 'POST', url })
      t.strictSame(reply, expected, `${title} at ${url}`)
    }
})

t.test(
  'a store that fails a plant: its client is told what is known, and nothing more',
  async (t) => {
    let error = new Error(secret)
    const fail: PlantStore['insert'] = async (rows) => rows.map(() => ({ kind: 'refused', error }))
    const app = await build(t, {
      store: { ...createMemoryStore(), insert: fail, insertEach: fail }
    })
    const report = (code: string) =>
      Object.assign(new Error(secret), { code, severity: 'ERROR', detail: secret })
    const cases: [error: Error, reply: Reply][] = [
      [report('23514'), failure('Internal')], // no constraint: a partition is missing
      [Object.assign(report('23514'), { constraint: 'rule' }), failure('RefusedPlant')],
      [report('22001'), failure('RefusedPlant')],
      [Object.assign(report('23502'), { column: 'soil' }), failure('Internal')],
      [Object.assign(report('23502'), { column: 'name' }), failure('RefusedPlant')],
      [new Error(secret), failure('Internal')]
    ]
    for (const [index, [each, reply]] of cases.entries()) {
      error = each
      t.strictSame(await create(app, { id: index, name: 'n' }), reply, JSON.stringify(error))
    }
  }
)

t.test('what a read throws says nothing of storing', async (t) => {
  const app = await build(t)
  let value: unknown
  app.get('/read', async () => {
    throw value
  })
  const nothing = { headers: { 'write-outcome': undefined } }
  const cases: [thrown: unknown, reply: Reply][] = [
    [new Error(secret), failure('Internal', nothing)],
    [new Failure('Internal', { outcome: 'none' }), failure('Internal', nothing)],
    ...(['Overloaded', 'Unavailable', 'DeadlineExceeded', 'RateLimited'] as const).map(
      (name): [unknown, Reply] => {
        const reply = failure(name, nothing)
        return [
          new Failure(name),
          { ...reply, body: reply.body.replace(' this request stored nothing;', '') }
        ]
      }
    )
  ]
  for (const [each, reply] of cases) {
    value = each
    for (const method of ['GET', 'HEAD'] as const) {
      const expected = method === 'HEAD' ? { ...reply, body: '' } : reply
      t.strictSame(await ask(app, { method, url: '/read' }), expected, `${method}: ${each}`)
    }
  }
})
