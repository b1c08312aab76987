/** Promise 6: the same request with the same Idempotency-Key creates one plant and gets one answer, on any replica, for ever. */
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { createDatabase, query } from '../support/postgres/database.ts'
import { failure, type Reply, replay, success } from '../support/responses.ts'
import { headers, keyed, startService, token } from '../support/service.ts'
import { exchange, parseResponses, request } from '../support/sockets.ts'

const otherCaller = 'other-secret-0123456789'
const DATABASE_URL = await createDatabase(t)
const env = { DATABASE_URL, AUTH_TOKENS: `tester:${token},tester:${token}2,other:${otherCaller}` }
const [service, replica] = await Promise.all([startService(t, env), startService(t, env)])

const run = (sql: string, values?: unknown[]) => query(DATABASE_URL, sql, values)
const by = (secret: string, key: string) => ({
  headers: { ...headers, authorization: `Bearer ${secret}`, 'idempotency-key': key }
})
const monstera = { name: 'Monstera', tag: 'tropical' }
const created = success(monstera)
const replayed = replay(monstera)
const duplicate = failure('DuplicatePlant')
const reused = failure('ReusedKey')

/** Each test has ids of its own. */
let lastId = 0
const newPlant = () => ({ id: ++lastId, ...monstera })

/** What comes after a create with the key `a`: the plant as it is sent, header fields, and the response. */
const seconds: [title: string, sent: (id: number) => unknown, options: object, reply: Reply][] = [
  ['the same: the first response again', (id) => ({ id, ...monstera }), keyed('a'), replayed],
  [
    'the key in quotes: the first response again',
    (id) => ({ id, ...monstera }),
    keyed('"a"'),
    replayed
  ],
  [
    'another secret of the caller: the first response again',
    (id) => ({ id, ...monstera }),
    by(`${token}2`, 'a'),
    replayed
  ],
  [
    'the same written otherwise: the first response again',
    (id) => ` { "tag":"tropical", "name":"\\u004donstera", "id":${id} }`,
    keyed('a'),
    replayed
  ],
  ['another name: 422', (id) => ({ id, ...monstera, name: 'Ficus' }), keyed('a'), reused],
  ['another tag: 422', (id) => ({ id, ...monstera, tag: 'desert' }), keyed('a'), reused],
  ['no tag: 422', (id) => ({ id, name: 'Monstera' }), keyed('a'), reused],
  ['an empty tag: 422', (id) => ({ id, name: 'Monstera', tag: '' }), keyed('a'), reused],
  ['another key: 409', (id) => ({ id, ...monstera }), keyed('b'), duplicate],
  ['the key in capitals: 409', (id) => ({ id, ...monstera }), keyed('A'), duplicate],
  ['no key: 409', (id) => ({ id, ...monstera }), {}, duplicate],
  ['another caller: 409', (id) => ({ id, ...monstera }), by(otherCaller, 'a'), duplicate],
  ['another id: 200', () => newPlant(), keyed('a'), created]
]

t.test('after a create with a key', async (t) => {
  for (const [title, sent, options, reply] of seconds)
    await t.test(title, async (t) => {
      const plant = newPlant()
      t.strictSame(await service.post(plant, keyed('a')), created)
      t.strictSame(await service.post(sent(plant.id), options), reply)
      t.strictSame(await replica.post(sent(plant.id), options), reply, 'at the other replica')
      t.strictSame(await run('select name, tag from plants where id = $1', [plant.id]), [monstera])
    })
})

/** What an operator does afterwards, how it is undone, and what a repeat then gets. */
const changes: [title: string, begin: string, end: string, reply: Reply][] = [
  ['renames the plant', `update plants set name = 'renamed', tag = null`, '', replayed],
  ['deletes the plant', 'delete from plants', '', created],
  [
    'adds a check that it breaks',
    'alter table plants add constraint short check (length(name) < 5) not valid',
    'alter table plants drop constraint short',
    replayed
  ],
  [
    'adds a trigger that refuses all',
    `create function quota() returns trigger language plpgsql as $$ begin raise 'the quota is used up'; end $$;
     create trigger quota before insert on plants for each row execute function quota()`,
    'drop function quota cascade',
    replayed
  ],
  [
    'makes the column too short for it',
    `update plants set name = left(name, 5); alter table plants alter column name type varchar(5)`,
    'alter table plants alter column name type text',
    replayed
  ]
]

for (const [title, begin, end, reply] of changes)
  t.test(
    `the operator ${title}: a repeat gets what it should, copies at the same time, too`,
    async (t) => {
      await run('delete from plants')
      const plant = newPlant()
      t.strictSame(await service.post(plant, keyed('a')), created)
      await run(begin)
      if (end) t.teardown(() => run(end))
      t.strictSame(await replica.post(plant, keyed('a')), reply)
      const copies = await Promise.all(
        Array.from({ length: 40 }, () => service.post(plant, keyed('a')))
      )
      t.strictSame(copies, Array(40).fill(replayed))
      t.strictSame(await service.post(plant), duplicate, 'a taken id is taken')
      if (end)
        t.strictSame(
          await service.post(newPlant(), keyed('a')),
          failure('RefusedPlant'),
          'a new one is refused'
        )
    }
  )

t.test('copies at the same time, at two replicas: one is created', async (t) => {
  const cases: [title: string, options: object, others: Reply][] = [
    ['with a key', keyed('c'), replayed],
    ['without a key', {}, duplicate]
  ]
  for (const [title, options, others] of cases)
    await t.test(title, async (t) => {
      for (let round = 0; round < 10; round++) {
        const plant = newPlant()
        const copies = Array.from({ length: 20 }, (_, n) =>
          (n % 2 ? service : replica).post(plant, options)
        )
        assertOneCreated(t, await Promise.all(copies), others)
        t.equal((await run(`select from plants where id = ${plant.id}`)).length, 1)
      }
    })
})

function assertOneCreated(t: Test, replies: Reply[], others: Reply) {
  const rest = replies.filter((reply) => !isDeepStrictEqual(reply, others))
  // With a key, a replica whose own attempt was cut off cannot tell which one has stored the plant.
  if (others !== replayed || rest.length === 0) t.strictSame(rest, [created])
  else for (const reply of rest) t.strictSame(reply, created)
}

t.test('copies in one packet: one of them is told that it has created the plant', async (t) => {
  const rounds = Array.from({ length: 10 }, () => {
    const body = JSON.stringify(newPlant())
    const copy = (fields = {}) => request(body, { 'idempotency-key': 'p', ...fields })
    return copy() + copy({ connection: 'close' })
  })
  let exact = 0
  for (const copies of rounds) {
    const replies = parseResponses(await exchange(service.url, [copies]))
    t.strictSame(
      replies.map(({ status, body }) => [status, body]),
      Array.from({ length: 2 }, () => [created.status, created.body])
    )
    if (replies.filter(({ headers }) => headers['idempotent-replayed']).length === 1) exact++
  }
  // Of copies that were cut off together, none can tell.
  t.not(exact, 0)
})

t.test(
  'copies at two replicas, where names are unique: none is refused for its own row',
  async (t) => {
    await run('delete from plants')
    await run('alter table plants add constraint one_name unique (name)')
    t.teardown(() => run('alter table plants drop constraint one_name'))
    for (let pair = 0; pair < 30; pair++) {
      const plant = { id: ++lastId, name: `pair ${pair}` }
      const replies = await Promise.all(
        [service, replica].map(({ post }) => post(plant, keyed('a')))
      )
      t.strictSame(
        replies.map(({ status }) => status),
        [200, 200]
      )
    }
  }
)

t.test('a repeat to a process that has started since: the first response again', async (t) => {
  const plant = newPlant()
  t.strictSame(await replica.post(plant, keyed('a')), created)
  await replica.end()
  const restarted = await startService(t, env)
  t.strictSame(await restarted.post(plant, keyed('a')), replayed)
})
