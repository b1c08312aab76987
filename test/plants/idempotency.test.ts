/** Requests that are sent again. */
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { failure, headers, replay, startService, success, token } from '../../harness/service/service.ts'
import { parseIdempotencyKey } from '../../src/http/head.ts'
import { writeContent } from '../../src/plants/columns.ts'
import { deriveFormerWriteId, deriveWriteId, isOfSameKey, randomWriteId } from '../../src/plants/write-id.ts'

const other = 'other-secret-0123456789'
const service = await startService(t, { AUTH_TOKENS: `tester:${token},tester:${token}2,other:${other}` })
const keyed = (key: string, authorization = headers.authorization) => ({
  headers: { ...headers, authorization, 'idempotency-key': key }
})
const duplicate = failure(409, 'a plant with this id already exists')
const reused = failure(422, 'this Idempotency-Key was already used for this id with different content')
const malformed = failure(
  400,
  'Idempotency-Key must be 1 to 255 visible ASCII characters; quote it if it contains a comma, a quote or a space'
)

/** A plant that nobody has created; each test has its own, so that it can run alone. */
let lastId = 0
const newPlant = () => ({ id: ++lastId, name: 'Monstera', tag: 'tropical' })
const created = success({ name: 'Monstera', tag: 'tropical' })
const replayed = replay({ name: 'Monstera', tag: 'tropical' })

/** Creates a new plant, with a key or without, and returns it. */
async function create(t: Test, init?: RequestInit) {
  const plant = newPlant()
  t.strictSame(await service.post(plant, init), created)
  return plant
}

t.test('the same key, id and content get the first response again, and one row', async (t) => {
  const plant = await create(t, keyed('a'))
  for (let count = 0; count < 2; count++) t.strictSame(await service.post(plant, keyed('a')), replayed)
  t.strictSame(await service.rows('select name, tag from plants where id = $1', [plant.id]), [
    { name: 'Monstera', tag: 'tropical' }
  ])
})

t.test('a key in quotes is the same key: the first response again', async (t) => {
  const plant = await create(t, keyed('a'))
  t.strictSame(await service.post(plant, keyed('"a"')), replayed)
})

t.test('another secret of the same caller is the same caller: the first response again', async (t) => {
  const plant = await create(t, keyed('a'))
  t.strictSame(await service.post(plant, keyed('a', `Bearer ${token}2`)), replayed)
})

t.test('the same key and id with other content get 422, and change nothing', async (t) => {
  const { id } = await create(t, keyed('a'))
  t.strictSame(await service.post({ id, name: 'Ficus', tag: 'tropical' }, keyed('a')), reused)
  t.strictSame(await service.post({ id, name: 'Monstera' }, keyed('a')), reused)
  t.strictSame(await service.post({ id, name: 'Monstera', tag: '' }, keyed('a')), reused)
  t.strictSame(await service.rows('select name, tag from plants where id = $1', [id]), [
    { name: 'Monstera', tag: 'tropical' }
  ])
})

t.test('another key, no key, or another caller get 409', async (t) => {
  const plant = await create(t, keyed('a'))
  t.strictSame(await service.post(plant, keyed('b')), duplicate)
  t.strictSame(await service.post(plant), duplicate)
  t.strictSame(await service.post(plant, keyed('a', `Bearer ${other}`)), duplicate)
})

t.test('a key does not open a plant that was created without one: 409', async (t) => {
  const plant = await create(t)
  t.strictSame(await service.post(plant, keyed('a')), duplicate)
})

t.test('the same key with another id is another create: 200', async (t) => {
  await create(t, keyed('a'))
  await create(t, keyed('a'))
})

/** Asserts that one response is that of a create, and all others that of a replay. */
function assertOneCreated(t: Test, responses: object[]) {
  const isReplay = (response: object) => isDeepStrictEqual(response, replayed)
  const others = responses.filter((response) => !isReplay(response))
  t.strictSame(others, [created])
}

t.test('copies at the same time all get the first response', async (t) => {
  const plant = newPlant()
  const copies = Array.from({ length: 50 }, () => service.post(plant, keyed('c')))
  assertOneCreated(t, await Promise.all(copies))
})

t.test('copies at the same time at two replicas all get the first response', async (t) => {
  const replica = await startService(t, { DATABASE_URL: service.databaseUrl })
  for (let count = 0; count < 25; count++) {
    const plant = newPlant()
    const copies = [service, replica, service, replica].map(({ post }) => post(plant, keyed('d')))
    assertOneCreated(t, await Promise.all(copies))
  }
})

t.test('the same request to a service that started later gets the first response again', async (t) => {
  const plant = await create(t, keyed('a'))
  const restarted = await startService(t, { DATABASE_URL: service.databaseUrl })
  t.strictSame(await restarted.post(plant, keyed('a')), replayed)
})

t.test('an empty, malformed or too long key gets 400 before the body is looked at', async (t) => {
  for (const key of [
    '',
    '""',
    '"a',
    'a b',
    'a,b',
    'a"b',
    '"a" ; b',
    '"é"',
    'x'.repeat(256),
    `"${'x'.repeat(256)}"`
  ]) {
    t.strictSame(await service.post('not json', keyed(key)), malformed, key)
  }
  await create(t, keyed('x'.repeat(255)))
})

t.test('a repeated key gets 400', async (t) => {
  const fields = new Headers(headers)
  fields.append('idempotency-key', 'a')
  fields.append('idempotency-key', 'a')
  t.strictSame(await service.post(newPlant(), { headers: fields }), malformed)
})

t.test('a quoted key is read without quotes and escapes, any other as it stands', async (t) => {
  t.equal(parseIdempotencyKey(undefined), undefined)
  t.equal(parseIdempotencyKey('"a \\"b\\" \\\\ c, d"'), 'a "b" \\ c, d')
  t.equal(parseIdempotencyKey("it's!"), "it's!")
  t.throws(() => parseIdempotencyKey('"a\\b"'))
})

t.test('write ids are UUIDs that nothing else derives', async (t) => {
  const derived = deriveWriteId('tester', 'key', 'content')
  t.match(derived, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/)
  t.equal(deriveWriteId('tester', 'key', 'content'), derived)
  const pairs = [
    ['tester', 'key'],
    ['test', 'erkey'],
    ['tester1', 'key'],
    ['a', '1:b'],
    ['a1', ':b'],
    ['a', 'b:c'],
    ['a:b', 'c']
  ] as const
  const all = pairs.flatMap(([caller, key]) => [
    deriveWriteId(caller, key, 'content'),
    deriveWriteId(caller, key, 'other'),
    deriveFormerWriteId(caller, key)
  ])
  all.push(randomWriteId(), randomWriteId())
  t.equal(new Set(all).size, all.length)
  const groups = Map.groupBy(all, (writeId) => all.findIndex((other) => isOfSameKey(writeId, other)))
  const lengths = [...groups.values()].map(({ length }) => length)
  t.strictSame(lengths, [...pairs.map(() => 3), 1, 1], 'they show which are of one key')
})

t.test('the content of plants is the same if all of their fields are', async (t) => {
  const plants = [
    { id: 1n, name: 'a' },
    { id: 1n, name: 'a', tag: '' },
    { id: 1n, name: 'a', tag: 'b' },
    { id: 1n, name: 'a,tag:"b"' },
    { id: 1n, name: 'a",tag:"b' }
  ]
  t.equal(new Set(plants.map(writeContent)).size, plants.length)
  t.equal(writeContent({ tag: 'b', name: 'a', id: 1n }), writeContent({ id: 1n, name: 'a', tag: 'b' }))
})

t.test('whatever has become of the plant meanwhile: the first response again', async (t) => {
  const plant = await create(t, keyed('a'))
  await service.rows(`update plants set name = 'renamed', tag = null where id = $1`, [plant.id])
  t.strictSame(await service.post(plant, keyed('a')), replayed)
  t.strictSame(await service.post({ id: plant.id, name: 'renamed' }, keyed('a')), reused)
})

t.test('a plant that version 1.0.0 has stored: the first response again', async (t) => {
  const plant = newPlant()
  // What 1.0.0 made of these two.
  const writeId = '44250f53-7313-834b-b512-5b6874aeb333'
  t.equal(deriveFormerWriteId('tester', 'a'), writeId)
  await service.rows('insert into plants (id, name, tag, write_id) values ($1, $2, $3, $4)', [
    plant.id,
    plant.name,
    plant.tag,
    writeId
  ])
  t.strictSame(await service.post(plant, keyed('a')), replayed)
  t.strictSame(await service.post(plant, keyed('b')), duplicate)
  t.strictSame(await service.post({ ...plant, name: 'Ficus' }, keyed('a')), reused, 'not with other content')
  t.strictSame(await service.post({ id: plant.id, name: plant.name }, keyed('a')), reused)
})

t.test('clients that abort: their neighbours still get 200', async (t) => {
  const controllers = Array.from({ length: 40 }, () => new AbortController())
  const calls = controllers.map(({ signal }) =>
    service.post(newPlant(), { ...keyed('e'), signal }).catch(() => undefined)
  )
  for (const [index, controller] of controllers.entries()) if (index % 2 === 0) controller.abort()
  const responses = (await Promise.all(calls)).filter((response) => response !== undefined)
  for (const response of responses) t.strictSame(response, created)
  t.ok(responses.length >= 20)
})
