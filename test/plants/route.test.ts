/** The operation, over HTTP and a real table. */
import t from 'tap'
import { failure, headers, post, startService, success, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'

const service = await startService(t)
const idRule = 'an integer from -9223372036854775808 to 9223372036854775807'

t.test('a plant with a tag gets 200 with name and tag, and is in the table', async (t) => {
  const response = await service.post({ id: 1, name: 'Monstera', tag: 'tropical' })
  t.strictSame(response, success({ name: 'Monstera', tag: 'tropical' }))
  const rows = await service.rows(
    'select id::text, name, tag, write_id, created_at > now() - interval $$1 minute$$ as recent from plants'
  )
  t.match(rows, [{ write_id: /^[0-9a-f]{8}-[0-9a-f]{4}-4/ }])
  t.strictSame(
    { ...rows[0], write_id: null },
    { id: '1', name: 'Monstera', tag: 'tropical', write_id: null, recent: true }
  )
})

t.test('a plant without a tag gets 200 without a tag, and null is in the table', async (t) => {
  t.strictSame(await service.post({ id: 2, name: 'Ficus' }), success({ name: 'Ficus' }))
  t.strictSame(await service.rows('select name, tag from plants where id = 2'), [
    { name: 'Ficus', tag: null }
  ])
})

t.test('empty texts are texts', async (t) => {
  t.strictSame(await service.post({ id: 3, name: '', tag: '' }), success({ name: '', tag: '' }))
  t.strictSame(await service.rows('select name, tag from plants where id = 3'), [{ name: '', tag: '' }])
})

t.test('unknown properties are ignored', async (t) => {
  const body =
    '{"id":4,"name":"Aloe","colour":"green","__proto__":{"tag":"x"},"constructor":{"prototype":{"tag":"y"}}}'
  t.strictSame(await service.post(body), success({ name: 'Aloe' }))
})

t.test('a second plant with the same id gets 409 and changes nothing', async (t) => {
  await service.post({ id: 5, name: 'first', tag: 'a' })
  const response = await service.post({ id: 5, name: 'second' })
  t.strictSame(response, failure(409, 'a plant with this id already exists'))
  t.strictSame(await service.rows('select name, tag from plants where id = 5'), [{ name: 'first', tag: 'a' }])
})

t.test('every int64 reaches the table exactly', async (t) => {
  const spellings: Record<string, string> = {
    '9223372036854775807': '9223372036854775807',
    '-9223372036854775808': '-9223372036854775808',
    '9223372036854775806': '9223372036854775806',
    '9007199254740993': '9007199254740993',
    '-9007199254740993': '-9007199254740993',
    '9.223372036854775805e18': '9223372036854775805',
    '1e3': '1000',
    '7.0': '7',
    '-0': '0'
  }
  for (const [spelling, id] of Object.entries(spellings)) {
    t.strictSame(await service.post(`{"id":${spelling},"name":"n"}`), success({ name: 'n' }), spelling)
    t.strictSame(await service.rows('select id::text from plants where id = $1', [id]), [{ id }])
  }
})

t.test('anything but an int64 as the id gets 422', async (t) => {
  const spellings = [
    '9223372036854775808',
    '-9223372036854775809',
    '1.5',
    '1e-1',
    '1e400',
    '18446744073709551616'
  ]
  for (const id of [...spellings, '"5"', 'null', 'true', '[1]', '{}', '9007199254740992.5']) {
    t.strictSame(await service.post(`{"id":${id},"name":"n"}`), failure(422, `id must be ${idRule}`), id)
  }
})

t.test('a missing field gets 422 that names it', async (t) => {
  t.strictSame(await service.post({ name: 'n' }), failure(422, 'id is required'))
  t.strictSame(await service.post({ id: 6 }), failure(422, 'name is required'))
  t.strictSame(await service.post({}), failure(422, 'id is required'))
})

t.test('a body that is JSON but no object gets 422', async (t) => {
  for (const body of ['null', '1', '"text"', '[]', '[{"id":1,"name":"n"}]', 'true']) {
    t.strictSame(await service.post(body), failure(422, 'the body must be a JSON object'), body)
  }
})

t.test('a body that is not JSON gets 400', async (t) => {
  for (const body of [
    '{',
    ' ',
    '{"id":1,}',
    "{'id':1}",
    '{"id":01,"name":"n"}',
    '\ufeff{"id":8,"name":"n"}'
  ]) {
    t.strictSame(await service.post(body), failure(400, 'the body is not valid JSON'), body)
  }
})

t.test('a body that is not UTF-8 gets 400', async (t) => {
  const body = Buffer.from('{"id":8,"name":"\xff"}', 'latin1')
  t.strictSame(await service.post(body), failure(400, 'the body is not valid UTF-8'))
})

t.test('a request without a body gets 400', async (t) => {
  const response = await service.post(undefined, {
    body: null,
    headers: { authorization: headers.authorization }
  })
  t.strictSame(response, failure(400, 'a body is required'))
})

t.test('another content type gets 415', async (t) => {
  const response = failure(415, 'the content type must be application/json')
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/vnd.api+json',
    'nonsense'
  ]) {
    t.strictSame(await service.post('{}', { headers: { ...headers, 'content-type': type } }), response, type)
  }
})

t.test('a content type in capitals or with a charset of UTF-8 is application/json', async (t) => {
  for (const [index, type] of ['Application/JSON', 'application/json; charset=utf-8'].entries()) {
    const response = await service.post(
      { id: 60 + index, name: 'n' },
      { headers: { ...headers, 'content-type': type } }
    )
    t.strictSame(response, success({ name: 'n' }), type)
  }
})

t.test('a body above the limit gets 413', async (t) => {
  const body = JSON.stringify({ id: 9, name: 'n'.repeat(1_048_576) })
  t.strictSame(await service.post(body), failure(413, 'the body is too large'))
})

t.test('an unknown path gets 404, with or without a token', async (t) => {
  const response = failure(404, 'no such path')
  t.strictSame(await post(`${service.url}/plan`, {}), response)
  t.strictSame(await post(`${service.url}/plants/1/2`, 'not json'), response)
  t.strictSame(await post(`${service.url}/plant`, {}, { headers: {} }), response)
})

t.test('another method gets 405 with Allow, with or without a token', async (t) => {
  const response = failure(405, 'this path does not support this method', { allow: 'POST' })
  for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    const init = { method, body: null, headers: {} }
    t.strictSame(await service.post(undefined, init), response, method)
    t.strictSame(await service.post(undefined, { ...init, headers }), response, method)
  }
})

t.test('a missing, malformed or wrong token gets 401 with the challenge of RFC 6750', async (t) => {
  const challenge = (extra: string) => ({ 'www-authenticate': `Bearer realm="plant-store"${extra}` })
  const missing = failure(401, 'a bearer token is required', challenge(''))
  const malformed = failure(
    401,
    'the Authorization header is malformed',
    challenge(', error="invalid_request"')
  )
  const wrong = failure(401, 'the bearer token is not valid', challenge(', error="invalid_token"'))
  const cases: [string | undefined, object][] = [
    [undefined, missing],
    ['', missing],
    ['Basic dGVzdDp0ZXN0', missing],
    [token, missing],
    ['Bearer', malformed],
    ['Bearer ', malformed],
    ['Bearer two tokens', malformed],
    ['Bearer "quoted"', malformed],
    [`Bearer ${token}x`, wrong],
    [`Bearer ${token.slice(0, -1)}`, wrong],
    ['Bearer AAAA', wrong]
  ]
  for (const [authorization, response] of cases) {
    const fields = authorization === undefined ? {} : { authorization }
    // The body is not looked at: it is not JSON, and of no declared type.
    t.strictSame(await service.post('not json', { headers: fields }), response, authorization ?? 'none')
  }
})

t.test('the scheme of a good token may be in any case', async (t) => {
  for (const [index, scheme] of ['bearer', 'BEARER', 'bEaReR'].entries()) {
    const authorization = `${scheme} ${token}`
    const response = await service.post(
      { id: 80 + index, name: 'n' },
      { headers: { ...headers, authorization } }
    )
    t.strictSame(response, success({ name: 'n' }), scheme)
  }
})

t.test('any text goes through the table byte for byte', async (t) => {
  const texts = [
    '🌵👩🏽‍🌾',
    'نبات الصبار ‏שלום',
    'e\u0301\u0323 Å Å',
    '\u200b\ufeff\uffff\u{10ffff}',
    '\t\n\r"\\\u2028',
    '漢'.repeat(33_000)
  ]
  for (const [index, text] of texts.entries()) {
    const plant = { name: text, tag: `${text}!` }
    t.strictSame(await service.post({ id: 100 + index, ...plant }), success(plant))
    const [row] = await service.rows('select name, tag from plants where id = $1', [100 + index])
    t.strictSame(Buffer.from(row.name), Buffer.from(text))
    t.strictSame(row.tag, plant.tag)
  }
})

t.test('1,000 creates of 500 ids, 100 at a time: 500 succeed, 500 get 409', async (t) => {
  const responses: Awaited<ReturnType<typeof post>>[] = []
  let next = 0
  const work = async () => {
    for (let index = next++; index < 1_000; index = next++) {
      responses.push(await service.post({ id: 10_000 + (index >> 1), name: `by ${index}` }))
    }
  }
  await Promise.all(Array.from({ length: 100 }, work))
  const created = responses.filter(({ status }) => status === 200)
  const refused = responses.filter(({ status }) => status === 400)
  t.equal(created.length, 500)
  t.equal(refused.length, 500)
  for (const response of refused) t.strictSame(response, failure(409, 'a plant with this id already exists'))
  const rows = await service.rows('select name from plants where id >= 10000 and id < 10500')
  t.strictSame(rows.map(({ name }) => name).sort(), created.map(({ body }) => JSON.parse(body).name).sort())
})

t.test('BASE_PATH stands before /plants', async (t) => {
  const prefixed = await startService(t, { BASE_PATH: '/v1', DATABASE_URL: service.databaseUrl })
  t.strictSame(await prefixed.post({ id: 200, name: 'n' }), success({ name: 'n' }))
  t.strictSame(await post(`${prefixed.url}/plants`, {}), failure(404, 'no such path'))
})

t.test('a request leaves one log line, with neither token nor body nor query', async (t) => {
  const quiet = await startService(t, { DATABASE_URL: service.databaseUrl })
  const before = quiet.log().length
  await post(`${quiet.url}/plants?secret=query`, { id: 300, name: 'secret-name' })
  await post(`${quiet.url}/plants?secret=query`, { id: 300, name: 'secret-name' })
  await post(`${quiet.url}/secret-path`, {})
  const lines = quiet.log().slice(before)
  const expected = [
    {
      level: 30,
      method: 'POST',
      route: '/plants',
      caller: 'tester',
      failure: 0,
      batchRows: 1,
      client: '127.0.0.1',
      msg: 'created'
    },
    {
      level: 30,
      method: 'POST',
      route: '/plants',
      caller: 'tester',
      failure: 409,
      errorName: 'DuplicatePlant',
      batchRows: 1,
      client: '127.0.0.1',
      msg: 'a plant with this id already exists'
    },
    {
      level: 30,
      method: 'POST',
      failure: 404,
      errorName: 'NotFound',
      client: '127.0.0.1',
      msg: 'no such path'
    }
  ]
  for (const [index, line] of lines.entries()) {
    const { time, durationMs, requestId, ...rest } = line
    t.strictSame(rest, expected[index])
    t.equal(typeof time, 'number')
    t.ok(durationMs > 0 && durationMs < scaled(10_000))
    t.match(requestId, /^[0-9a-f-]{36}$/)
  }
  t.equal(lines.length, 3)
  t.notMatch(quiet.logText(), /secret/)
})
