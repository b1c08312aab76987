/** What operators rely on: Prometheus finds and judges the stack, TLS in its balancer, backups, and what `down` keeps. */
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { docker } from '../../harness/docker/docker.ts'
import { execute } from '../../harness/execute.ts'
import { exchange, parseResponses, request as rawRequest } from '../../harness/http/raw.ts'
import { createAuthority } from '../../harness/postgres/certificates.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { assertOutlived } from './floods.ts'
import { copyCheckout, startStack } from './stack.ts'

const prometheus = `http://127.0.0.1:${await freePort()}`
const backups = join(await copyCheckout(t), 'coverage')
await mkdir(backups)
const stack = await startStack(t, { PROMETHEUS_PORT: new URL(prometheus).port, BACKUP_DIRECTORY: backups })

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

t.test('Prometheus finds every replica, and under load each rule has what it asks for', async (t) => {
  const config = join(stack.cwd, 'ops/prometheus/prometheus.yml')
  await writeFile(config, (await readFile(config, 'utf8')).replaceAll('interval: 15s', 'interval: 3s'))
  await stack.compose('--profile=observability', 'up', '--wait', 'prometheus')
  const load = await stack.startClients(t)
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
  const isOfTls = (name: string) => name === 'plant_store:balancers_with_tls'
  const recorded = (await rules()).filter(({ name, type }) => type === 'recording' && !isOfTls(name))
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
    const variables = { environment: 'production', instance: '.*', __rate_interval: '1m', __range: '1h' }
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
  t.match(await (await fetch(link)).text(), `<h3 id="${link.hash.slice(1)}">`)
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
  const unknown = '{"error":404,"message":"no such path"}'
  await assertOutlived(t, stack, ['balancer-tls', 3443, 'tls'], async () => {
    t.equal(await ask('/nowhere', {}), `400 TLSv1.3 ${unknown}`)
  })
  await t.rejects(ask('/plants', { maxVersion: 'TLSv1.2' }), /tlsv1 alert protocol version/)
  const deaths = await outliveReplicas(-20, 8)
  await stack.compose('kill', 'api') // scaling.test.ts sees the drain
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

t.test(
  'a backup proves itself; Prometheus warns of one that is late, and of a certificate that expires',
  async (t) => {
    const compose = (command: string) =>
      execute('bash', ['-c', `docker compose --progress=quiet run --rm -T --no-deps ${command}`], stack)
    await stack.compose('run', '--rm', '-T', 'setup', '--rotate')
    await stack.compose('run', '--rm', '-T', 'roles')
    const alerts = ['PlantStoreBackupOld', 'PlantStoreCertificateExpiring']
    const late = Math.floor(Date.now() / 1_000) - 31 * 3_600
    await compose(
      `--entrypoint sh setup -c 'echo plant_store_backup_time_seconds ${late} >/pages/backup.prom'`
    )
    const [certificate, another] = [createAuthority('of a day'), createAuthority('another')]
    const file = join(stack.cwd, 'coverage/balancer.pem')
    await mkdir(join(stack.cwd, 'coverage'), { recursive: true })
    await writeFile(file, certificate.cert + another.key)
    await t.rejects(compose(`certificate --import <${file}`), /the key is not that of the first certificate/)
    await writeFile(file, certificate.cert + certificate.key)
    await compose(`certificate --import <${file}`)
    await until('both fire', firing, (names) => alerts.every((name) => names.includes(name)))

    await compose(`--entrypoint rm certificate /certificate/balancer.pem`)
    await compose('certificate')
    await stack.compose('--profile=backup', 'up', '--detach', '--wait', 'backup')
    await stack.operate('nightly-backup')
    await until('neither fires', firing, (names) => !alerts.some((name) => names.includes(name)))
    await stack.compose('stop', 'backup')
    await stack.compose(
      'run',
      '--rm',
      '--no-deps',
      '--entrypoint=find',
      'backup',
      '/backup',
      '-mindepth',
      '1',
      '-delete'
    )
  }
)

t.test('`down` keeps the plants and the token, `down -v` nothing; a backup brings them back', async (t) => {
  const everything = 'select * from plants order by id'
  t.equal(await post(-3, 'before'), '200 {"name":"Moss"}')
  const [plants, token] = [await stack.query(everything), await stack.token()]
  t.ok(plants.length > 100)
  await stack.compose('--profile=*', 'down')
  await stack.compose('up', '--detach', '--wait')
  t.strictSame(await stack.query(everything), plants)
  t.equal(await stack.token(), token)

  const backup = join(stack.cwd, 'coverage/backup')
  const operate = (script: string) => stack.operate(script, [backup])
  const settings = join(stack.cwd, '.env')
  await writeFile(settings, 'LOG_LEVEL=debug\n')
  await operate('backup')
  await t.rejects(operate('backup'), /must not exist yet/)
  await rm(settings)
  const refused = await operate('restore').catch(({ stderr }) => stderr)
  t.match(refused, /restore: the stack \S+ has a database; COMPOSE_PROJECT_NAME=other/)
  await t.rejects(readFile(settings), { code: 'ENOENT' })
  const newer = await stack.token('newer')
  const [remove = ''] =
    /docker compose --project-directory .* && docker volume rm \S+_data$/m.exec(refused) ?? []
  await execute('bash', ['-c', remove], { cwd: '/' }) // as it says, from anywhere
  await operate('restore')
  t.strictSame(await stack.query(everything), plants)
  t.strictSame([await stack.token('newer'), await stack.token()], [newer, token], 'newer tokens are kept')

  await stack.compose('--profile=*', 'down', '--volumes')
  await rm(settings)
  const filter = `label=com.docker.compose.project=${stack.env.COMPOSE_PROJECT_NAME}`
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
  t.equal(await post(-3, 'other'), '400 {"error":409,"message":"a plant with this id already exists"}')
  t.strictSame(await stack.query(everything), plants, 'nothing was created')
  t.equal(await post(-4, 'after'), '200 {"name":"Moss"}')
})
