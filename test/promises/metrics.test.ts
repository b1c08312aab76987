/** Promise 17, the page of metrics: what each event changes on it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseMetrics } from '../support/metrics-page.ts'
import { lockTable, untilBlocked } from '../support/postgres/database.ts'
import { root } from '../support/process.ts'
import { makeKey, startProvider } from '../support/provider.ts'
import { headers, keyed, send, startService, token } from '../support/service.ts'
import { connectTo, exchange, request } from '../support/sockets.ts'
import { is, until } from '../support/until.ts'

const bob = 'bob-secret-0123456789'
const tokens = `tester:${token},bob:${bob}`
const service = await startService(t, {
  AUTH_TOKENS: tokens,
  WRITE_LANES: '1',
  WRITE_QUEUE_ROWS: '4'
})

const none = '(none)'
const me = 'tester'

type Metrics = Awaited<ReturnType<typeof service.metrics>>
type Changes = Record<string, number | 'some'>

/** The lines of the page, without their prefix, that a response changes. */
const ended = (
  caller: string,
  result: string,
  number: number,
  at = 'POST /plants',
  count = 1
): Changes => {
  const [method, route] = at.split(' ')
  const labels = `route=${route},method=${method},failure=${number}`
  return {
    [`http_requests_total{caller=${caller},result=${result}}`]: count,
    [`http_request_duration_seconds_count{${labels}}`]: count
  }
}
const failed = (result: string, number: number, ...more: string[]) => ({
  ...ended(me, result, number),
  ...some(...more)
})
/** One at least of each, for the service may try again. */
const some = (...lines: string[]): Changes =>
  Object.fromEntries(lines.map((line) => [line, 'some']))
const created = (caller: string, count = 1) => ended(caller, 'Success', 0, undefined, count)
const replayed = created(me)
const hasLeft = { [`http_requests_total{caller=${me},result=ClientLeft}`]: 1 }
const noRequest = {
  [`http_requests_total{caller=${none},result=MalformedRequest}`]: 1
}
const reported = (code: string) => `database_errors_total{sqlstate=${code}}`

const read = async (name: string) => (await service.metrics()).value(`plant_store_${name}`)
const queued = (rows: number) => until(`${rows} plants wait`, () => read('queue_rows'), is(rows))
const create = (id: number, name: unknown = 'n', options = {}) =>
  service.post({ id, name }, options)
const get = (path: string, method = 'GET') => send(service.url + path, { method })
const byBob = { headers: { ...headers, authorization: `Bearer ${bob}` } }
const sendBytes = () => exchange(service.url, ['hello\r\n\r\n'], { halfClose: true })

async function leave() {
  const holder = await lockTable(t, service.databaseUrl)
  const socket = connectTo(service.url)
  socket.write(request('{"id":8,"name":"n"}'))
  await queued(1)
  socket.resetAndDestroy()
  await until('it has left', () =>
    service.log().some(({ msg }) => msg.startsWith('the client left'))
  )
  await holder.query('rollback')
  await queued(0)
}

async function overload() {
  const holder = await lockTable(t, service.databaseUrl)
  const both = [create(10), create(11)]
  await queued(2)
  await create(12)
  await holder.query('rollback')
  await Promise.all(both)
}

async function createWithoutTable() {
  await service.rows('alter table plants rename to gone')
  await create(13)
  await service.rows('alter table gone rename to plants')
}

const events: [title: string, act: () => Promise<unknown>, changes: Changes][] = [
  ['a create', () => create(1), created(me)],
  ['one by another caller', () => create(2, 'n', byBob), created('bob')],
  ['one with a key', () => create(3, 'n', keyed('a')), created(me)],
  ['its replay', () => create(3, 'n', keyed('a')), replayed],
  ['its key with other content', () => create(3, 'm', keyed('a')), failed('ReusedKey', 422)],
  ['an id that is taken', () => create(1), failed('DuplicatePlant', 409)],
  ['a value that is not valid', () => create(4, 1), failed('InvalidPlant', 422)],
  ['a broken rule', () => create(5, 'rose'), failed('RefusedPlant', 422, reported('23514'))],
  ['no token', () => create(6, 'n', { headers: {} }), ended(none, 'MissingToken', 401)],
  ['another method', () => get('/plants'), ended(none, 'MethodNotAllowed', 405, 'GET /plants')],
  [
    'a strange method',
    () => get('/plants', 'PURGE'),
    ended(none, 'MethodNotAllowed', 405, 'other /plants')
  ],
  ['another path', () => get('/trees/1?a=b'), ended(none, 'NotFound', 404, 'GET unknown')],
  ['a probe', () => get('/livez'), ended(none, 'Success', 0, 'GET /livez')],
  ['bytes that are no request', sendBytes, noRequest],
  ['a client that leaves', leave, hasLeft],
  ['a full queue', overload, { ...created(me, 2), ...failed('Overloaded', 503) }],
  ['no table', createWithoutTable, failed('Internal', 500, reported('42P01'))]
]

/** What depends on how often a batch is tried. */
const isLoose = (line: string) => /^(batch|database_errors|pool)_/.test(line)

/** Returns what the service has counted, by the lines of the page. */
function countsOf({ samples, types }: Metrics) {
  const counted = samples.filter(
    ({ name }) =>
      name.startsWith('plant_store_') &&
      (types[name] === 'counter' || /_count$|_rows_sum$/.test(name))
  )
  const lineOf = (name: string, labels: object) => {
    const pairs = Object.entries(labels).map(([label, value]) => `${label}=${value}`)
    return name.slice('plant_store_'.length) + (pairs.length > 0 ? `{${pairs}}` : '')
  }
  return new Map(counted.map(({ name, labels, value }) => [lineOf(name, labels), value]))
}

const requestsOf = (counts: Iterable<[line: string, count: number | 'some']>) =>
  [...counts].reduce(
    (sum, [line, count]) => (line.startsWith('http_requests_') ? sum + Number(count) : sum),
    0
  )

t.test('an event changes these counters, and no others', async (t) => {
  await service.rows(`alter table plants add check (name <> 'rose')`)
  for (const [title, act, changes] of events) {
    const before = countsOf(await service.metrics())
    await act()
    const enough = requestsOf(before) + requestsOf(Object.entries(changes))
    const read = async () => countsOf(await service.metrics())
    const after = await until(`${title} is counted`, read, (counts) => requestsOf(counts) >= enough)
    const found = [...after].flatMap(([line, value]): [string, number | 'some'][] => {
      const change = value - (before.get(line) ?? 0)
      if (change === 0 || (isLoose(line) && !(line in changes))) return []
      return [[line, isLoose(line) ? 'some' : change]]
    })
    t.strictSame(Object.fromEntries(found), changes, title)
  }
  const { values, value } = await service.metrics()
  const batches = values('plant_store_batch_duration_seconds_count')
  for (const result of ['written', 'found', 'refused', 'schemaMismatch'])
    t.ok(batches[result], `a batch: ${result}`)
  for (const name of ['count', 'sum'])
    t.ok(value(`plant_store_batch_rows_${name}`) > 0, `rows of batches: ${name}`)
})

t.test('a plant that waits is on the page, and off it afterwards', async (t) => {
  const holder = await lockTable(t, service.databaseUrl)
  const waiting = create(20)
  await untilBlocked(service.databaseUrl)
  const names = ['http_requests_in_flight', 'queue_rows']
  const readAll = async () => {
    const { value, values } = await service.metrics()
    const isOpen = value('plant_store_http_connections') > 0
    const isBusy = 'busy' in values('plant_store_pool_connections')
    return [...names.map((name) => value(`plant_store_${name}`)), isOpen, isBusy].join()
  }
  t.equal(await readAll(), '1,1,true,true')
  await holder.query('rollback')
  await waiting
  await until('all is over', readAll, is('0,0,true,false'))
})

const ofNode = `
  nodejs_eventloop_lag_p99_seconds nodejs_heap_size_used_bytes process_cpu_seconds_total process_open_fds
  process_resident_memory_bytes process_start_time_seconds`

t.test(
  'the page is text in the format of Prometheus, with what Node says of its process',
  async (t) => {
    const { body, headers: fields, status } = await send(service.metricsUrl(), { method: 'GET' })
    t.strictSame(
      [status, fields['content-type']],
      [200, 'text/plain; version=0.0.4; charset=utf-8']
    )
    const { samples, types } = parseMetrics(body)
    const names = samples.map(({ name }) => name)
    for (const name of ofNode.trim().split(/\s+/)) t.ok(names.includes(name), name)
    const counters = Object.keys(types).filter((name) => types[name] === 'counter')
    t.strictSame(
      counters.filter((name) => !name.endsWith('_total')),
      []
    )
  }
)

t.test('docs/monitoring.md names all metrics of the service, and no others', async (t) => {
  const page = readFileSync(join(root, 'docs/monitoring.md'), 'utf8')
  const named = [...page.matchAll(/^\|`(plant_store_\w+)`\|/gm)].map(([, name]) => name)
  // Some are there only for the tokens of an identity provider.
  const provider = await startProvider(t, makeKey())
  const { types } = await (await startService(t, provider.settings)).metrics()
  const metrics = Object.keys(types).filter((name) => name.startsWith('plant_store_'))
  t.strictSame(named.sort(), metrics.sort())
})
