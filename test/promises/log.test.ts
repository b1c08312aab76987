/** Promise 17, the log: one line a request, with these fields, and never what a client or a row has said. */
import t from 'tap'
import { addTrigger, lockTable, untilBlocked } from '../support/postgres/database.ts'
import { headers, type Line, send, startService } from '../support/service.ts'
import { connectTo, exchange, parseResponses, request } from '../support/sockets.ts'
import { until } from '../support/until.ts'

/** Each secret has the word hush: a token, a body, a query, a path, a field, a value of a row, a message of PostgreSQL. */
const secret = 'hush-hush-hush-hush'
const service = await startService(t, { AUTH_TOKENS: `tester:${secret}`, LOG_LEVEL: 'debug' })

let requests = 0

/** Sends a request; returns its response, and its only line without times. A field that is undefined is not sent. */
async function ask(
  body: unknown,
  fields: Record<string, string | undefined> = {},
  start = 'POST /plants'
) {
  const before = service.log().length
  const [method = '', path] = start.split(' ')
  const usual = {
    ...headers,
    authorization: `Bearer ${secret}`,
    'user-agent': 'hush',
    cookie: 'hush'
  }
  const all = Object.entries({ ...usual, 'x-request-id': `r${++requests}`, ...fields })
  const given = Object.fromEntries(all.filter(([, text]) => text !== undefined))
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await send(`${service.url}${path}?hush=hush`, { method, headers: given }, text)
  return { line: await newLine(before), response }
}

/** Returns the one line of a request after those that were there before, without its times, as soon as it is there. */
async function newLine(before: number, { log } = service) {
  const ofRequests = () =>
    log()
      .slice(before)
      .filter(({ requestId }) => requestId)
  const [line, ...others] = await until('its line is there', ofRequests, ({ length }) => length > 0)
  if (others.length > 0)
    throw new Error(`a request has more than one line: ${JSON.stringify(others)}`)
  const { time, durationMs, ...rest } = line as Line
  return rest
}

const anywhere = { level: 30, client: '127.0.0.1' }
const nowhere = { ...anywhere, method: 'POST' }
const known = { ...nowhere, route: '/plants' }
const mine = { ...known, caller: 'tester' }
const created = { ...mine, failure: 0, msg: 'responded' }
const probe = {
  ...anywhere,
  level: 20,
  method: 'GET',
  route: '/livez',
  failure: 0,
  msg: 'responded'
}
const failed = (failure: number, errorName: string, line: object = mine) => ({
  ...line,
  failure,
  errorName
})
const patch = failed(405, 'MethodNotAllowed', { ...known, method: 'PATCH' })
const report = { type: 'DatabaseError', name: 'error', severity: 'ERROR' }
const table = {
  schema: 'public',
  table: 'plants',
  routine: 'ExecConstraints',
  constraint: 'no_rose'
}
const refused = { ...failed(422, 'RefusedPlant'), cause: { ...report, code: '23514', ...table } }
const raise = { code: 'P0001', routine: 'exec_stmt_raise', function: 'rule' }
const raised = { ...refused, cause: { ...report, ...raise } }
const plant = { id: 1, name: 'hush', tag: 'hush' }
const key = { 'idempotency-key': 'hush' }
const authorized = (authorization: string | undefined) => ({ authorization })

type Case = [
  title: string,
  body: unknown,
  fields: Record<string, string | undefined>,
  line: object,
  start?: string
]
const cases: Case[] = [
  ['a create', plant, {}, created],
  ['its id again', plant, {}, failed(409, 'DuplicatePlant')],
  ['one with a key', { ...plant, id: 2 }, key, created],
  ['its replay', { ...plant, id: 2 }, key, created],
  ['its key again', { id: 2, name: 'n' }, key, failed(422, 'ReusedKey')],
  ['a bad key', '', { 'idempotency-key': 'hush hush' }, failed(400, 'MalformedKey')],
  ['no JSON', '{"id":hush', {}, failed(400, 'MalformedBody')],
  ['a bad value', { id: 'hush', name: 'hush' }, {}, failed(422, 'InvalidPlant')],
  ['another type', plant, { 'content-type': 'hush/hush' }, failed(415, 'UnsupportedMediaType')],
  ['a broken rule', { id: 3, name: 'hush rose' }, {}, refused],
  ['a trigger that raises', { id: 4, name: 'hush P0001' }, {}, raised],
  ['no token', plant, authorized(undefined), failed(401, 'MissingToken', known)],
  ['a wrong token', plant, authorized('Bearer hush'), failed(401, 'InvalidToken', known)],
  [
    'a malformed token',
    plant,
    authorized('Bearer hush hush'),
    failed(401, 'MalformedToken', known)
  ],
  ['another method', plant, {}, patch, 'PATCH /plants'],
  ['another path', plant, {}, failed(404, 'NotFound', nowhere), 'POST /hush/hush'],
  ['a path that is no text', plant, {}, failed(400, 'MalformedRequest', nowhere), 'POST /%zzhush'],
  ['a probe', '', {}, probe, 'GET /livez']
]

t.test('each request leaves one line with these fields', async (t) => {
  await service.rows(`alter table plants add constraint no_rose check (name <> 'hush rose')`)
  const options = `errcode = split_part(new.name, ' ', 2), detail = new.name, hint = new.name`
  const raise = `if new.name like 'hush %0%' then raise exception '% %', new.name, new.id using ${options}; end if;`
  const drop = await addTrigger(t, service.databaseUrl, raise)
  for (const [title, body, fields, expected, start] of cases) {
    const { line, response } = await ask(body, fields, start)
    const { error, message: msg } = JSON.parse(response.body)
    t.strictSame(line, { requestId: `r${requests}`, ...(error && { msg }), ...expected }, title)
  }
  const { line } = await ask({ id: 5, name: 'hush XX000' })
  t.match(line, { ...failed(500, 'Internal'), level: 50, msg: 'internal error' })
  t.match(
    line.err,
    { stack: /\S/, cause: { code: 'XX000', function: 'rule' } },
    'an unexpected error'
  )
  await drop()
  const helper = `create function helper() returns void language plpgsql as 'begin raise exception ''hush''; end'`
  await service.rows(helper)
  const dropOuter = await addTrigger(t, service.databaseUrl, 'perform helper();')
  const { line: inner } = await ask({ id: 6, name: 'n' })
  t.match(
    inner,
    { cause: { code: 'P0001', function: 'helper' } },
    'the function that has raised it'
  )
  await dropOuter()
})

t.test('bytes that are no request, and a client that leaves, have a line', async (t) => {
  const before = service.log().length
  const [response] = parseResponses(
    await exchange(service.url, ['hush\r\n\r\n'], { halfClose: true })
  )
  const requestId = response?.headers['x-request-id']
  const malformed = {
    ...failed(400, 'MalformedRequest', anywhere),
    msg: 'the request is malformed'
  }
  t.strictSame(await newLine(before), { requestId, ...malformed })

  const holder = await lockTable(t, service.databaseUrl)
  const socket = connectTo(service.url)
  const fields = { authorization: `Bearer ${secret}`, 'x-request-id': 'gone' }
  socket.write(request('{"id":6,"name":"hush"}', fields))
  await untilBlocked(service.databaseUrl)
  socket.resetAndDestroy()
  const left = { ...mine, requestId: 'gone', msg: 'the client left before its response' }
  t.strictSame(await newLine(before + 1), left)
  await holder.query('rollback')
})

const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = '00f067aa0ba902b7'
const addresses = '203.0.113.9, [2001:DB8::1]:80'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** What a field says, what its line then has, and values that are ignored. */
const identities: [field: string, name: string, good: string[], logged: string[], bad: string[]][] =
  [
    [
      'x-request-id',
      'requestId',
      ['Az09._-'],
      ['Az09._-'],
      ['', 'x'.repeat(129), 'hush hush', 'a,b', '"a"', '\\']
    ],
    [
      'traceparent',
      'traceId',
      [`00-${trace}-${parent}-01`],
      [trace],
      ['hush"', trace, `00-${'0'.repeat(32)}-${parent}-01`]
    ],
    [
      'x-forwarded-for',
      'forwardedFor',
      [addresses],
      [addresses],
      ['hush', '10.0.0.1"\\', '1'.repeat(201)]
    ]
  ]

t.test(
  'who asks: X-Request-Id, traceparent and X-Forwarded-For, if they are well formed',
  async (t) => {
    for (const [field, name, good, logged, bad] of identities) {
      for (const [index, sent] of good.entries())
        t.equal((await ask('', { [field]: sent })).line[name], logged[index], `${field}: ${sent}`)
      for (const sent of bad) {
        const { line } = await ask('', { [field]: sent })
        t.match(
          String(line[name]),
          name === 'requestId' ? uuid : /^undefined$/,
          `${field}: ${sent}`
        )
      }
    }
  }
)

t.test('nothing of all that was said is in the log', async (t) => {
  service.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  t.equal(code, 0)
  t.strictSame(
    `${stdout}${stderr}`.split('\n').filter((line) => /hush/i.test(line)),
    []
  )
})
