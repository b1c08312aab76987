/** Requests that are sent again. */
import t from 'tap'
import { parseIdempotencyKey } from '../../src/plants/idempotency-key.ts'
import { deriveWriteId, randomWriteId } from '../../src/plants/write-id.ts'
import { failure, headers, startService, success, token } from '../support/service.ts'

const other = 'other-secret-0123456789'
const service = await startService(t, { AUTH_TOKENS: `tester:${token},tester:${token}2,other:${other}` })
const keyed = (key: string, authorization = headers.authorization) => ({
  headers: { ...headers, authorization, 'idempotency-key': key }
})
const duplicate = failure(409, 'a plant with this id exists already')
const reused = failure(422, 'the Idempotency-Key was used for this id with other content')
const malformed = failure(400, 'the Idempotency-Key must be 1 to 255 visible ASCII characters')

t.test('the same key, id and content get the first response again, and one row', async (t) => {
  const plant = { id: 1, name: 'Monstera', tag: 'tropical' }
  for (let count = 0; count < 3; count++) {
    const { id, ...answer } = plant
    t.strictSame(await service.post(plant, keyed('a')), success(answer))
  }
  t.strictSame(await service.rows('select name, tag from plants where id = 1'), [
    { name: 'Monstera', tag: 'tropical' }
  ])
})

t.test('a key in quotes is the same key', async (t) => {
  t.strictSame(
    await service
      .post({ id: 1, name: 'Monstera', tag: 'tropical' }, keyed('"a"'))
      .then(({ status }) => status),
    200
  )
})

t.test('another secret of the same caller is the same caller', async (t) => {
  const answer = await service.post(
    { id: 1, name: 'Monstera', tag: 'tropical' },
    keyed('a', `Bearer ${token}2`)
  )
  t.equal(answer.status, 200)
})

t.test('the same key and id with other content get 422, and change nothing', async (t) => {
  t.strictSame(await service.post({ id: 1, name: 'Ficus', tag: 'tropical' }, keyed('a')), reused)
  t.strictSame(await service.post({ id: 1, name: 'Monstera' }, keyed('a')), reused)
  t.strictSame(await service.post({ id: 1, name: 'Monstera', tag: '' }, keyed('a')), reused)
  t.strictSame(await service.rows('select name, tag from plants where id = 1'), [
    { name: 'Monstera', tag: 'tropical' }
  ])
})

t.test('another key, no key, or another caller get 409', async (t) => {
  const plant = { id: 1, name: 'Monstera', tag: 'tropical' }
  t.strictSame(await service.post(plant, keyed('b')), duplicate)
  t.strictSame(await service.post(plant), duplicate)
  t.strictSame(await service.post(plant, keyed('a', `Bearer ${other}`)), duplicate)
})

t.test('a key does not open a plant that was created without one', async (t) => {
  await service.post({ id: 2, name: 'n' })
  t.strictSame(await service.post({ id: 2, name: 'n' }, keyed('a')), duplicate)
})

t.test('the same key with another id is another create', async (t) => {
  t.strictSame(await service.post({ id: 3, name: 'n' }, keyed('a')), success({ name: 'n' }))
})

t.test('copies at the same time all get the first response', async (t) => {
  const copies = Array.from({ length: 50 }, () => service.post({ id: 4, name: 'n' }, keyed('c')))
  for (const answer of await Promise.all(copies)) t.strictSame(answer, success({ name: 'n' }))
})

t.test('copies at the same time at two replicas all get the first response', async (t) => {
  const replica = await startService(t, { DATABASE_URL: service.databaseUrl })
  for (let id = 5; id < 30; id++) {
    const copies = [service, replica, service, replica].map(({ post }) => post({ id, name: 'n' }, keyed('d')))
    for (const answer of await Promise.all(copies)) t.strictSame(answer, success({ name: 'n' }))
  }
})

t.test('a restart does not forget', async (t) => {
  const restarted = await startService(t, { DATABASE_URL: service.databaseUrl })
  const answer = await restarted.post({ id: 1, name: 'Monstera', tag: 'tropical' }, keyed('a'))
  t.strictSame(answer, success({ name: 'Monstera', tag: 'tropical' }))
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
  t.equal((await service.post({ id: 40, name: 'n' }, keyed('x'.repeat(255)))).status, 200)
})

t.test('a repeated key gets 400', async (t) => {
  const fields = new Headers(headers)
  fields.append('idempotency-key', 'a')
  fields.append('idempotency-key', 'a')
  t.strictSame(await service.post({ id: 41, name: 'n' }, { headers: fields }), malformed)
})

t.test('keys are read as they are meant', async (t) => {
  t.equal(parseIdempotencyKey(undefined), undefined)
  t.equal(parseIdempotencyKey('"a \\"b\\" \\\\ c, d"'), 'a "b" \\ c, d')
  t.equal(parseIdempotencyKey("it's!"), "it's!")
  t.throws(() => parseIdempotencyKey('"a\\b"'))
})

t.test('write ids are UUIDs that nothing else derives', async (t) => {
  const derived = deriveWriteId('tester', 'key')
  t.match(derived, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.equal(deriveWriteId('tester', 'key'), derived)
  const all = [
    derived,
    deriveWriteId('test', 'erkey'),
    deriveWriteId('tester1', 'key'),
    randomWriteId(),
    randomWriteId()
  ]
  const pairs = [
    ['a', '1:b'],
    ['a1', ':b'],
    ['a', 'b:c'],
    ['a:b', 'c']
  ] as const
  t.equal(new Set([...all, ...pairs.map(([caller, key]) => deriveWriteId(caller, key))]).size, 9)
})

t.test('a client that goes away leaves its plant, and its neighbours, alone', async (t) => {
  const controllers = Array.from({ length: 40 }, () => new AbortController())
  const calls = controllers.map(({ signal }, index) =>
    service.post({ id: 100 + index, name: 'n' }, { ...keyed('e'), signal }).catch(() => undefined)
  )
  for (const [index, controller] of controllers.entries()) if (index % 2 === 0) controller.abort()
  const answers = await Promise.all(calls)
  for (const answer of answers.filter((value) => value !== undefined))
    t.strictSame(answer, success({ name: 'n' }))
  t.ok(answers.filter((value) => value !== undefined).length >= 20)
})
