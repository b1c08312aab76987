/** The stack of docker-compose.yml: the README's tour, and what clients see while operators work on it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { docker, inspect, statusOf } from '../../dev/docker.ts'
import { freePort } from '../../dev/embedded-postgres.ts'
import { execute } from '../../dev/execute.ts'
import { startRivals } from '../../dev/histories/rivals.ts'
import { scaled } from '../../dev/slowness.ts'
import { until } from '../../dev/until.ts'
import { createAuthority } from '../support/certificates.ts'
import { assertRows } from '../support/history.ts'
import { exchange, parseResponses, request as rawRequest } from '../support/raw.ts'
import { copyStack } from './stack.ts'
import { isPrinted, readSteps, toScript } from './tour.ts'

const clients = 16
const prometheus = `http://127.0.0.1:${await freePort()}`
const stack = await copyStack(t, {
  PROMETHEUS_PORT: new URL(prometheus).port,
  WRITE_DEADLINE_MS: '60000',
  // On a usual machine the default; SHUTDOWN_TIMEOUT_MS has room for the most.
  SHUTDOWN_DELAY_MS: String(Math.min(15_000, scaled(5_000))),
  SHUTDOWN_TIMEOUT_MS: '110000'
})
let nextId = 1

/** Asks Prometheus by a path of its interface. */
const read = async (path: string) =>
  JSON.parse(await (await fetch(`${prometheus}/api/v1/${path}`)).text()).data

/** The value of a query that has one. */
async function value(query: string): Promise<number> {
  const { result } = await read(`query?${new URLSearchParams({ query })}`)
  return Number(result[0]?.value[1])
}

/** The alerts that fire now. */
async function firing(): Promise<string[]> {
  const { alerts } = await read('alerts')
  const fires = ({ state }: { state: string }) => state === 'firing'
  return alerts.filter(fires).map(({ labels }: { labels: { alertname: string } }) => labels.alertname)
}

/** A rule as Prometheus has it. */
interface Rule {
  name: string
  type: 'recording' | 'alerting'
  health: 'ok' | 'unknown' | 'err'
}

/** Clients under way, and the proof that none of their creates failed and each plant is stored once. */
async function startClients(t: Test) {
  const [url, token] = [await stack.url(), await stack.token()]
  const load = startRivals({ urls: [url], token, clients, pauseMs: 80, firstId: nextId })
  t.teardown(() => load.stop())
  await load.succeed(200)
  return {
    succeed: load.succeed,
    async assertServed() {
      await load.succeed(200)
      const history = await load.stop()
      const firstId = nextId
      nextId += history.operations.length
      assertRows(t, await stack.plants(firstId, nextId - 1), history)
      t.strictSame(history.failed, [], 'no client saw an error')
    }
  }
}

t.test("the README's tour, line by line", async (t) => {
  const steps = readSteps('### The tour')
  t.ok(steps.length >= 7)
  const out = join(stack.cwd, 'coverage')
  await mkdir(out)
  // The tour's port may be taken here: the balancer's is a free one.
  const address = '"$(docker compose port balancer 3000)"'
  const script = toScript(steps).replaceAll('127.0.0.1:3000', address)
  await execute('bash', ['-c', script], { cwd: stack.cwd, env: { ...stack.env, OUT: out } })
  for (const [index, step] of steps.entries()) {
    const printed = await readFile(join(out, String(index)), 'utf8')
    if (!t.ok(isPrinted(step, printed), step.command)) t.comment(`printed:\n${printed}`)
  }
})

t.test('only the balancer is published, on 127.0.0.1, and every container is confined', async (t) => {
  const ids = (await stack.compose('ps', '--all', '--quiet')).split('\n')
  const containers = await inspect(...ids)
  const service = (container: { Config: { Labels: Record<string, string> } }) =>
    container.Config.Labels['com.docker.compose.service'] ?? ''
  t.strictSame(containers.map(service).sort(), ['api', 'api', 'balancer', 'db', 'migrate', 'roles', 'setup'])
  for (const container of containers) {
    const { HostConfig: host, Config: config, NetworkSettings: network } = container
    const published = Object.values(network.Ports ?? {}).flatMap((ports) => ports ?? [])
    const addresses = (published as { HostIp: string }[]).map(({ HostIp }) => HostIp)
    t.strictSame(addresses, service(container) === 'balancer' ? ['127.0.0.1'] : [], service(container))
    t.match(host, { ReadonlyRootfs: true, CapDrop: ['ALL'], Privileged: false }, service(container))
    t.strictSame(host.SecurityOpt, ['no-new-privileges:true'])
    for (const limit of [host.Memory, host.NanoCpus, host.PidsLimit]) t.ok(limit > 0, 'it is limited')
    const secret = config.Env.filter((entry: string) => /PASSWORD=|TOKENS=|:\/\/[^/]*@/.test(entry))
    t.strictSame(secret, [], 'no secret is in its environment')
    if (service(container) === 'api') t.equal(config.StopTimeout, 120, 'SHUTDOWN_TIMEOUT_MS and 10 s')
  }
})

t.test(
  'the log has the address of the balancer, and last of all the one that the balancer tells',
  async (t) => {
    const headers = { 'x-forwarded-for': '203.0.113.7', 'x-request-id': 'forged-address' }
    t.equal((await fetch(`${await stack.url()}/plants`, { headers })).status, 400)
    const line = await until('the request is logged', async () =>
      (await stack.compose('logs', 'api')).split('\n').find((line) => line.includes('"forged-address"'))
    )
    t.match(line, /"client":"\d+\.\d+\.\d+\.\d+","forwardedFor":"203\.0\.113\.7, \d+\.\d+\.\d+\.\d+"/)
  }
)

t.test(
  'a second caller gets a token of its own without a restart, and the service may not change its table',
  async (t) => {
    const file = () =>
      stack.compose('exec', '-T', 'balancer', 'stat', '--format=%i', '/config/haproxy/haproxy.cfg')
    const before = await file()
    const token = await stack.token('another')
    t.match(token, /^\S{43}$/)
    t.not(token, await stack.token())
    t.equal(await stack.token('another'), token, 'it is made once')
    t.equal(await file(), before, 'files that are in use stay')
    const url = `${await stack.url()}/plants`
    const post = async (name: string) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ id: -1, name }) })
      return JSON.parse(await response.text())
    }
    const response = await until(
      'the replicas have read the file, as they do every second',
      () => post('Aloe'),
      ({ error }) => error !== 401
    )
    t.strictSame(response, { name: 'Aloe' })
    for (const name of ['dev', 'another'])
      t.notMatch(await stack.compose('logs', 'setup'), await stack.token(name), 'no log has a token')
    // As docs/compose.md revokes it.
    const revoke = "sed -i '/^another:/d' /secrets/api/tokens && rm /secrets/tokens/another"
    await stack.compose('run', '--rm', '-T', '--entrypoint', 'sh', 'setup', '-c', revoke)
    await stack.compose('up', '--detach', '--no-recreate', '--wait')
    await until(
      'it is revoked',
      () => post('Aloe'),
      ({ error }) => error === 401
    )
    const privileges = `select table_name, string_agg(privilege_type, ' ' order by privilege_type)
    from information_schema.role_table_grants where grantee = 'service' group by table_name`
    t.strictSame(await stack.query(privileges), ['plants|INSERT SELECT'])
  }
)

t.test('the owner of the table may nothing else, and no password is the superuser', async (t) => {
  const roles = `select rolname, pg_get_userbyid(relowner) = rolname as owns,
    rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls as may_more, rolpassword is null as is_local,
    has_database_privilege(rolname, 'plants', 'create, temporary') as may_create
    from pg_authid, pg_class where relname = 'plants' and rolcanlogin order by 1`
  t.strictSame(await stack.query(roles), ['owner|t|f|f|f', 'plants|f|t|t|t', 'service|f|f|f|f'])
})

t.test('setup --rotate makes new passwords; the old ones are refused', async (t) => {
  const read = () => stack.compose('exec', '-T', 'api', 'cat', '/run/secrets/database-url')
  const script = `const client = new (require('pg').Client)(process.argv[1])
    client.connect().then(() => client.end(), ({ code }) => code).then((code) => console.log(code ?? 'connected'))`
  const connect = (url: string) => stack.compose('exec', '-T', 'api', 'node', '--eval', script, url)
  const [token, old] = [await stack.token(), await read()]
  t.equal(await connect(old), 'connected')
  const withoutGenerator = 'node() { return 1; }; set -- --rotate; . /ops/compose/setup.sh'
  await t.rejects(stack.compose('run', '--rm', '-T', '--entrypoint', 'sh', 'setup', '-c', withoutGenerator))
  t.equal(await read(), old)
  await stack.query("alter system set log_statement = 'ddl'")
  await stack.query('select pg_reload_conf()')
  await stack.compose('run', '--rm', '-T', 'setup', '--rotate')
  const roles = () => stack.compose('run', '--rm', '-T', 'roles')
  await Promise.all([roles(), roles()])
  const log = await stack.compose('logs', 'db')
  t.match(log, 'alter role service login')
  t.notMatch(log, new URL(await read()).password)
  await stack.query('alter system reset log_statement')
  await stack.query('select pg_reload_conf()')
  t.equal(await connect(old), '28P01')
  t.equal(await connect(await read()), 'connected')
  t.equal(await stack.compose('run', '--rm', '-T', 'migrate'), 'nothing to migrate')
  t.equal(await stack.token(), token, 'tokens stay')
})

/** A connection of HTTP/2 by prior knowledge with 100 creates whose bodies do not end (RFC 9113). */
function manyStreams(): Buffer {
  const frame = (type: number, flags: number, stream: number, payload: Buffer) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.writeUIntBE(type * 256 + flags, 3, 2)
    head.writeUInt32BE(stream, 5)
    return Buffer.concat([head, payload])
  }
  const text = (value: string) => `${String.fromCharCode(value.length)}${value}`
  // RFC 7541: the indexed fields `:method: POST` and `:scheme: http`, and literal ones.
  const fields = [':path', '/plants', ':authority', 'test', 'content-length', '100000']
  const literals = fields.map((field, index) => `${index % 2 === 0 ? '\0' : ''}${text(field)}`).join('')
  const header = Buffer.from(`\x83\x86${literals}`, 'latin1')
  const streams = Array.from({ length: 100 }, (_, index) => [
    frame(1, 4, 1 + 2 * index, header),
    frame(0, 0, 1 + 2 * index, Buffer.alloc(500))
  ])
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  return Buffer.concat([Buffer.from(preface), frame(4, 0, 0, Buffer.alloc(0)), ...streams.flat()])
}

/** A program of the image: it opens connections, each of which sends these bytes and then nothing. */
const flooder = `
  const [module, host, port, count, base64] = process.argv.slice(1)
  const bytes = Buffer.from(base64, 'base64')
  let sent = 0
  for (let index = 0; index < count; index++) {
    const socket = require(module).connect({ host, port, rejectUnauthorized: false })
    socket.on('error', () => {}).write(bytes, () => ++sent < count || console.log('sent'))
  }`

/** Connections, and what each sends: HTTP/2, and a large header on as many connections as a balancer takes. */
const floods: [number, Buffer][] = [
  [500, manyStreams()],
  [4_000, Buffer.from(`POST /plants HTTP/1.1\r\nhost: test\r\nx: ${'x'.repeat(15_000)}`)]
]

/** Floods a balancer without a token; calls `serve` amid each flood, and proves that the balancer has lived on. */
async function assertOutlived(
  t: Test,
  balancer: [string, number, 'net' | 'tls'],
  serve: () => Promise<void>
) {
  const [service, port, module] = balancer
  const state = async () => {
    const [{ Id: id, State: state }] = await inspect(...(await stack.running(service)))
    return [id, state.StartedAt]
  }
  const before = await state()
  const { COMPOSE_PROJECT_NAME: project } = stack.env
  const name = `${project}-flooder`
  for (const [count, bytes] of floods) {
    const flags = ['--detach', `--name=${name}`, `--network=${project}_front`]
    const args = [module, service, `${port}`, `${count}`, bytes.toString('base64')]
    await docker(['run', ...flags, stack.image, 'node', '--eval', flooder, ...args])
    try {
      await until('all is sent', async () => (await docker(['logs', name])) === 'sent')
      // Another balancer would have another port, at which nobody asks.
      if (!t.strictSame(await state(), before)) return
      await serve()
    } finally {
      await docker(['rm', '--force', name])
    }
  }
  t.strictSame(await state(), before)
}

t.test('floods without a token end neither the balancer nor what good clients get from it', async (t) => {
  const load = await startClients(t)
  const [url, token] = [await stack.url(), await stack.token()]
  const head = { authorization: `Bearer ${token}`, 'idempotency-key': 'flood', connection: 'close' }
  await assertOutlived(t, ['balancer', 3000, 'net'], async () => {
    await load.succeed(100)
    // A new connection, which may have to wait until others are timed out.
    const [response] = parseResponses(await exchange(url, [rawRequest('{"id":-5,"name":"Yew"}', head)]))
    t.match(response, { status: 200, body: '{"name":"Yew"}' })
  })
  await load.assertServed()
})

t.test('replicas that do not listen yet get no request', async (t) => {
  const { COMPOSE_PROJECT_NAME: project } = stack.env
  const names = [1, 2, 3, 4].map((number) => `${project}-slow-${number}`)
  t.teardown(() => docker(['rm', '--force', ...names]))
  const load = await startClients(t)
  const found = async () =>
    (await stack.compose('logs', 'balancer')).match(/Server api\/api\d+ .* \(resolves again\)/g)?.length ?? 0
  const before = await found()
  for (const name of names) {
    const network = [`--network=${project}_front`, '--network-alias=api']
    await docker(['create', '--name', name, ...network, stack.image, 'sleep', 'infinity'])
  }
  await docker(['start', ...names])
  await until('the balancer has their addresses', async () => (await found()) >= before + names.length)
  await load.succeed(300)
  await load.assertServed()
})

t.test('--scale api=4 under load: all four serve, and no client sees an error', async (t) => {
  const load = await startClients(t)
  await stack.compose('up', '--detach', '--no-recreate', '--scale', 'api=4', '--wait')
  const replicas = await stack.running('api')
  t.equal(replicas.length, 4)
  const began = new Date().toISOString()
  const serves = async (id: string) => /"msg":"created"/.test(await docker(['logs', '--since', began, id]))
  for (const id of replicas) while (!(await serves(id))) await load.succeed(100)
  await load.assertServed()
})

t.test('plain `up` goes back to two replicas under load: the drain loses no request', async (t) => {
  const load = await startClients(t)
  await stack.compose('up', '--detach', '--wait')
  t.equal((await stack.running('api')).length, 2)
  await load.assertServed()
})

t.test('a rolling update under load: every replica is a new one, and no client sees an error', async (t) => {
  const before = await stack.running('api')
  const load = await startClients(t)
  await execute('ops/rolling-update', [], { cwd: stack.cwd, env: { ...stack.env, REVISION: 'next' } })
  const after = await stack.running('api')
  t.equal(after.length, before.length)
  for (const { Id: id, Config: config } of await inspect(...after)) {
    t.notOk(before.includes(id))
    t.equal(config.Labels['org.opencontainers.image.revision'], 'next')
  }
  await load.assertServed()
})

t.test('an update that is killed while it stops a replica is finished by the next one', async (t) => {
  const before = await stack.running('api')
  const load = await startClients(t)
  const env = { ...process.env, ...stack.env }
  const update = spawn('ops/rolling-update', { cwd: stack.cwd, env, detached: true, stdio: 'ignore' })
  const ended = once(update, 'exit')
  await until(
    'one of the old replicas has gone',
    () => stack.running('api'),
    (ids) => ids.length > 2 && ids.filter((id) => before.includes(id)).length === 1
  )
  process.kill(-(update.pid as number), 'SIGKILL')
  await ended
  await execute('ops/rolling-update', [], { cwd: stack.cwd, env: stack.env })
  const after = await stack.running('api')
  t.equal(after.length, 2)
  t.notOk(after.some((id) => before.includes(id)))
  await load.assertServed()
})

t.test('an update of broken replicas to an old image, which is here: none is built or pulled', async (t) => {
  const old = `${stack.image}-old`
  await docker(['tag', stack.image, old])
  t.teardown(() => docker(['image', 'rm', old]))
  const update = (env: Record<string, string>) =>
    execute('ops/rolling-update', [], { cwd: stack.cwd, env: { ...stack.env, ...env } })
  await t.rejects(update({ PLANT_STORE_IMAGE: `${stack.image}:unknown` }))
  const [{ Id: id }] = await inspect(old)
  const api = async () => inspect(...(await stack.compose('ps', '--all', '--quiet', 'api')).split('\n'))
  await stack.compose('kill', 'api') // the drain was seen above
  const up = ['compose', 'up', '--detach', '--no-deps', 'api']
  await docker(up, { cwd: stack.cwd, env: { ...stack.env, WRITE_LANES: 'none' } })
  await until('none starts', api, (all) =>
    all.every(({ RestartCount: count }: { RestartCount: number }) => count > 0)
  )
  await update({ PLANT_STORE_IMAGE: old, REVISION: 'another' })
  const images = (await api()).map(({ Image: image }: { Image: string }) => image)
  t.strictSame(images, [id, id])
  t.equal((await inspect(old))[0].Id, id)
})

t.test('an update that does not become ready is taken back', async (t) => {
  const before = await stack.running('api')
  const load = await startClients(t)
  const env = { ...stack.env, REVISION: 'broken', WRITE_LANES: 'none' }
  await t.rejects(execute('ops/rolling-update', [], { cwd: stack.cwd, env }), /the old ones serve on/)
  t.strictSame((await stack.running('api')).sort(), before.sort())
  await load.assertServed()
})

t.test(
  'an update with one replica that does not become ready takes the others back without a loss',
  async (t) => {
    const before = await stack.running('api')
    const load = await startClients(t)
    const began = new Date().toISOString()
    const env = { ...stack.env, REVISION: 'half' }
    // What begins now waits for a database that takes writes, until one replica is cut off.
    await stack.query('alter role service set default_transaction_read_only = on')
    const update = execute('ops/rolling-update', [], { cwd: stack.cwd, env })
    update.catch(() => {})
    const fresh = async () => (await stack.running('api')).filter((id) => !before.includes(id))
    const [good = '', bad = ''] = await until(
      'two new replicas run',
      fresh,
      (ids) => ids.length === before.length
    )
    await docker(['network', 'disconnect', `${stack.env.COMPOSE_PROJECT_NAME}_back`, bad])
    await stack.query('alter role service reset default_transaction_read_only')
    const serves = async () => /"msg":"created"/.test(await docker(['logs', '--since', began, good]))
    await until('the good one serves', serves)
    await docker(['kill', bad])
    await t.rejects(update, /the old ones serve on/)
    t.strictSame((await stack.running('api')).sort(), before.sort())
    await load.assertServed()
  }
)

t.test(
  'the database is away for a while under load: replicas stay, and no client sees an error',
  async (t) => {
    const load = await startClients(t)
    const since = new Date().toISOString()
    await stack.compose('stop', 'db')
    t.equal(await statusOf(`${await stack.url()}/readyz`), 200)
    await stack.compose('start', 'db')
    await load.assertServed()
    t.notMatch(await stack.compose('logs', '--since', since, 'balancer'), 'DOWN')
  }
)

t.test('Prometheus finds every replica, and under load each rule has what it asks for', async (t) => {
  const config = join(stack.cwd, 'ops/prometheus/prometheus.yml')
  await writeFile(config, (await readFile(config, 'utf8')).replaceAll('interval: 15s', 'interval: 3s'))
  await stack.compose('--profile=observability', 'up', '--wait', 'prometheus')
  const load = await startClients(t)
  const replicas = ['sum(up{job="plant-store"})', 'sum(haproxy_server_status{proxy="api", state="UP"})']
  for (const query of replicas)
    await until(
      query,
      () => value(query),
      (count) => count === 2
    )
  const rules = async (): Promise<Rule[]> =>
    (await read('rules')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
  const isWell = ({ health }: Rule) => health === 'ok'
  const recorded = (await rules()).filter(({ type }) => type === 'recording')
  t.ok(recorded.length > 10)
  await load.assertServed()
  // The number of replicas that are expected is looked up each minute.
  const limitMs = scaled(180_000)
  for (const { name } of recorded) await until(name, () => value(`count(${name})`), Boolean, limitMs)
  await until('each rule is evaluated', rules, (all) => all.every(isWell))
  const { groups } = await read('rules')
  t.match(groups, [{ name: 'plant-store' }, { name: 'plant-store-objectives' }])
  t.ok(groups[0].rules.length > 10)
  // The service's own are in test/alerts.
  const names = new Set(JSON.stringify(groups).match(/\bhaproxy_\w+/g))
  t.ok(names.size > 3)
  for (const name of names) t.ok(await value(`count(${name}{job="haproxy"})`), name)
  const { panels } = JSON.parse(await readFile(join(stack.cwd, 'ops/grafana/dashboard.json'), 'utf8'))
  const queries = panels.flatMap(({ targets = [] }: { targets?: { expr: string }[] }) => targets)
  t.ok(queries.length > 30)
  for (const { expr } of queries) {
    const variables = { job: 'plant-store', instance: '.*', __rate_interval: '1m', __range: '1h' }
    const query = expr.replace(/\$(\w+)/g, (_: string, name: keyof typeof variables) => variables[name])
    const response = await fetch(`${prometheus}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query })
    })
    t.match(await response.text(), '{"status":"success"', query)
  }
  const [alert] = groups[0].rules
  const flags = await read('status/flags')
  t.equal(flags['enable-feature'], 'exemplar-storage')
  const link = new URL(alert.annotations.runbook_url.replace('{{ $externalURL }}', flags['web.external-url']))
  t.equal(link.origin, prometheus)
  t.match(await (await fetch(link)).text(), `<h2 id="${link.hash.slice(1)}">`)
})

t.test('the profile tls: TLS 1.3 and HSTS in every response, also when every replica has died', async (t) => {
  await stack.compose('--profile=tls', 'up', '--detach', '--wait')
  await until('both balancers are scraped', async () => (await value('sum(up{job="haproxy"})')) === 2)
  const pem = await stack.compose('exec', '-T', 'balancer-tls', 'cat', '/run/secrets/balancer.pem')
  const ca = pem.slice(0, pem.indexOf('-----BEGIN PRIVATE KEY-----'))
  const origin = `https://${await stack.compose('port', 'balancer-tls', '3443')}`
  const ask = async (path: string, options: RequestOptions) => {
    const call = request(`${origin}${path}`, { ca, agent: false, ...options })
    const [response] = await once(call.end(options.method && '{"id":-2,"name":"Ivy"}'), 'response')
    const { statusCode, headers, socket } = response as IncomingMessage
    t.equal(headers['strict-transport-security'], 'max-age=31536000')
    return `${statusCode} ${(socket as TLSSocket).getProtocol()} ${await text(response)}`
  }
  const headers = { authorization: `Bearer ${await stack.token()}`, 'content-type': 'application/json' }
  t.equal(await ask('/plants', { method: 'POST', headers }), '200 TLSv1.3 {"name":"Ivy"}')
  const unknown = '{"error":404,"message":"there is nothing at this path"}'
  await assertOutlived(t, ['balancer-tls', 3443, 'tls'], async () => {
    t.equal(await ask('/nowhere', {}), `400 TLSv1.3 ${unknown}`)
  })
  await t.rejects(ask('/plants', { maxVersion: 'TLSv1.2' }), /tlsv1 alert protocol version/)
  const deaths = await outliveReplicas(-20, 8)
  await stack.compose('kill', 'api') // the drain was seen above
  const responses = await deaths()
  t.match(await ask('/plants', {}), '400 TLSv1.3 {"error":503,', "the balancer's own")
  await stack.compose('up', '--detach', '--wait')
  for (const [index, [first, second, ...more]] of responses.entries()) {
    t.match(first, { status: 200, body: '{"name":"Fern"}' })
    // HAProxy closes a kept connection without a response, where the replica's was a kept one, too.
    if (second) t.match(second, { status: 400, body: /^\{"error":503,"message":"the service [^"]*"\}$/ })
    t.strictSame(more, [])
    t.equal(await post(-20 - index, `${index}`), '200 {"name":"Moss"}', 'the same request again')
  }
})

/**
 * Opens connections through the balancer that are kept after a create. The function that it returns sends one more create
 * on each, and returns all of the responses when the balancer has closed.
 */
async function outliveReplicas(id: number, count: number) {
  const [url, token] = [await stack.url(), await stack.token()]
  const create = (id: number, name: string, key: string, connection?: 'close') => {
    const head = { authorization: `Bearer ${token}`, 'idempotency-key': key, connection }
    return rawRequest(JSON.stringify({ id, name }), head)
  }
  const died = Promise.withResolvers<void>()
  const kept = Array.from({ length: count }, (_, index) => {
    const isKept = Promise.withResolvers<void>()
    const first = create(id - count - index, 'Fern', 'first')
    const wait = () => {
      isKept.resolve()
      return died.promise
    }
    const second = create(id - index, 'Moss', `${index}`, 'close')
    const all = exchange(url, [first, /\}$/, wait, second])
    return { isKept: isKept.promise, responses: all.then((bytes) => parseResponses(bytes)) }
  })
  await Promise.all(kept.map(({ isKept }) => isKept))
  return () => {
    died.resolve()
    return Promise.all(kept.map(({ responses }) => responses))
  }
}

/** Creates a plant, and returns its response. */
async function post(id: number, key: string) {
  const headers = {
    authorization: `Bearer ${await stack.token()}`,
    'content-type': 'application/json',
    'idempotency-key': key
  }
  const body = JSON.stringify({ id, name: 'Moss' })
  const response = await fetch(`${await stack.url()}/plants`, { method: 'POST', headers, body })
  return `${response.status} ${await response.text()}`
}

/** Where the nightly backups are. */
const nights = join(stack.cwd, 'coverage/nights')

t.test(
  'a backup proves itself; Prometheus warns of one that is late, and of a certificate that expires',
  async (t) => {
    const compose = (command: string) =>
      execute('bash', ['-c', `docker compose --progress=quiet run --rm -T --no-deps ${command}`], stack)
    const alerts = ['PlantStoreBackupOld', 'PlantStoreCertificateExpiring']
    const late = Math.floor(Date.now() / 1_000) - 31 * 3_600
    await compose(
      `--entrypoint sh setup -c 'echo plant_store_backup_time_seconds ${late} >/pages/backup.prom'`
    )
    const [certificate, another] = [createAuthority('of a day'), createAuthority('another')]
    const file = join(stack.cwd, 'coverage/balancer.pem')
    await writeFile(file, certificate.cert + another.key)
    await t.rejects(compose(`certificate --import <${file}`), /the key is not that of the first certificate/)
    await writeFile(file, certificate.cert + certificate.key)
    await compose(`certificate --import <${file}`)
    await until('both fire', firing, (names) => alerts.every((name) => names.includes(name)))

    await compose(`--entrypoint rm certificate /certificate/balancer.pem`)
    await compose('certificate')
    t.equal(await post(-3, 'before'), '200 {"name":"Moss"}')
    await writeFile(join(stack.cwd, '.env'), 'LOG_LEVEL=debug\n')
    await mkdir(nights)
    await execute('ops/nightly-backup', [nights], stack)
    await until('neither fires', firing, (names) => !alerts.some((name) => names.includes(name)))
    const trial = `label=com.docker.compose.project=${stack.env.COMPOSE_PROJECT_NAME}-nightly`
    for (const kind of ['volume', 'network'])
      t.equal(await docker([kind, 'ls', '--quiet', '--filter', trial]), '', 'nothing of the trial is left')
  }
)

t.test('`down` keeps the plants and the token, `down -v` nothing; a backup brings them back', async (t) => {
  const everything = 'select * from plants order by id'
  const [plants, token] = [await stack.query(everything), await stack.token()]
  t.ok(plants.length > 1_000)
  await stack.compose('--profile=*', 'down')
  await stack.compose('up', '--detach', '--wait')
  t.strictSame(await stack.query(everything), plants)
  t.equal(await stack.token(), token)

  const backup = join(nights, (await readdir(nights)).find((name) => name.startsWith('plants-')) as string)
  const operate = (command: string) => execute(`ops/${command}`, [backup], { cwd: stack.cwd, env: stack.env })
  await t.rejects(operate('backup'), /must not exist yet/)
  const settings = join(stack.cwd, '.env')
  await rm(settings)
  await t.rejects(operate('restore'), /has secrets already/)
  await t.rejects(readFile(settings), { code: 'ENOENT' })

  await stack.compose('kill') // the drain was seen above
  await stack.compose('--profile=*', 'down')
  const filter = `label=com.docker.compose.project=${stack.env.COMPOSE_PROJECT_NAME}`
  const volumes = async () =>
    (await docker(['volume', 'ls', '--quiet', '--filter', filter])).split('\n').filter(Boolean)
  const others = (await volumes()).filter((name) => !name.endsWith('_data'))
  await docker(['volume', 'rm', ...others])
  await t.rejects(operate('restore'), /its plants may be newer than the backup/)
  await stack.compose('up', '--detach', '--wait', 'db')
  t.strictSame(await stack.query(everything), plants, 'a database without secrets keeps its plants')
  await stack.compose('--profile=*', 'down', '--volumes')
  t.strictSame(await volumes(), [])

  const dump = join(backup, 'plants.dump')
  const whole = await readFile(dump)
  const damaged = Buffer.from(whole)
  damaged.fill('?', damaged.length >> 1, (damaged.length >> 1) + 1_000)
  await writeFile(dump, damaged)
  await t.rejects(operate('restore'), /cannot be read/)
  t.equal(await docker(['ps', '--quiet', '--filter', filter]), '', 'nothing was started')
  await writeFile(dump, whole)
  await stack.compose('--profile=*', 'down', '--volumes')
  await operate('restore')
  t.equal(await readFile(settings, 'utf8'), 'LOG_LEVEL=debug\n')
  t.strictSame(await stack.query(everything), plants)
  t.equal(await stack.token(), token)
  t.equal(await post(-3, 'before'), '200 {"name":"Moss"}', 'a replay')
  t.equal(await post(-3, 'other'), '400 {"error":409,"message":"a plant with this id exists already"}')
  t.strictSame(await stack.query(everything), plants, 'nothing was created')
  t.equal(await post(-4, 'after'), '200 {"name":"Moss"}')
})
