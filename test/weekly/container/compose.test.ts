/** The stack of docker-compose.yml: the README's tour, what callers and secrets may, and clients that mean harm. */
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { docker, inspect } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { createPlant } from '../../support/post.ts'
import { exchange, parseResponses, request } from '../../support/sockets.ts'
import { until } from '../../support/until.ts'
import { assertOutlived } from './floods.ts'
import { copyStack } from './stack.ts'
import { isPrinted, readSteps, toScript } from './tour.ts'

const stack = await copyStack(t)

t.test("the README's tour, line by line", async (t) => {
  const steps = readSteps('README.md', '### The tour')
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

t.test('the log has the address of the balancer, and last of all the one that it tells', async (t) => {
  const headers = { 'x-forwarded-for': '203.0.113.7', 'x-request-id': 'forged-address' }
  t.equal((await fetch(`${await stack.url()}/plants`, { headers })).status, 400)
  const line = await until('the request is logged', async () =>
    (await stack.compose('logs', 'api')).split('\n').find((line) => line.includes('"forged-address"'))
  )
  t.match(line, /"client":"\d+\.\d+\.\d+\.\d+","forwardedFor":"203\.0\.113\.7, \d+\.\d+\.\d+\.\d+"/)
})

t.test('a second caller gets a token without a restart; the service may not change its table', async (t) => {
  const file = () =>
    stack.compose('exec', '-T', 'balancer', 'stat', '--format=%i', '/config/haproxy/haproxy.cfg')
  const before = await file()
  const token = await stack.token('another')
  t.match(token, /^\S{43}$/)
  t.not(token, await stack.token())
  t.equal(await stack.token('another'), token, 'it is made once')
  t.equal(await file(), before, 'files that are in use stay')
  const url = await stack.url()
  const create = () => createPlant(url, token, { id: -1, name: 'Aloe' })
  const response = await until(
    'the replicas have read the file, as they do every second',
    create,
    (response) => !response.includes('401')
  )
  t.equal(response, '200 {"name":"Aloe"}')
  for (const name of ['dev', 'another'])
    t.notMatch(await stack.compose('logs', 'setup'), await stack.token(name), 'no log has a token')
  // As docs/compose.md revokes it.
  await stack.compose('run', '--rm', '-T', 'setup', '--revoke', 'another')
  await stack.compose('up', '--detach', '--no-recreate', '--wait')
  await until('it is revoked', create, (response) => response.includes('401'))
  const privileges = `select table_name, string_agg(privilege_type, ' ' order by privilege_type)
    from information_schema.role_table_grants where grantee = 'plants_service' group by table_name`
  t.strictSame(await stack.query(privileges), ['plants|INSERT SELECT'])
})

t.test('the owner of the table may nothing else, and no password is the superuser', async (t) => {
  const roles = `select rolname, pg_get_userbyid(relowner) = rolname as owns,
    rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls as may_more, rolpassword is null as is_local,
    has_database_privilege(rolname, 'plants', 'create, temporary') as may_create
    from pg_authid, pg_class where relname = 'plants' and rolcanlogin order by 1`
  const found = [
    'plants|f|t|t|t',
    'plants_exporter|f|f|f|f',
    'plants_owner|t|f|f|f',
    'plants_service|f|f|f|f'
  ]
  t.strictSame(await stack.query(roles), found)
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
  t.match(log, 'alter role plants_service login')
  t.notMatch(log, new URL(await read()).password)
  await stack.query('alter system reset log_statement')
  await stack.query('select pg_reload_conf()')
  t.equal(await connect(old), '28P01')
  t.equal(await connect(await read()), 'connected')
  t.equal(await stack.compose('run', '--rm', '-T', 'migrate'), 'nothing to migrate')
  t.equal(await stack.token(), token, 'tokens stay')
})

t.test('floods without a token end neither the balancer nor what good clients get from it', async (t) => {
  const load = await stack.startClients(t)
  const [url, token] = [await stack.url(), await stack.token()]
  const head = { authorization: `Bearer ${token}`, 'idempotency-key': 'flood', connection: 'close' }
  await assertOutlived(t, stack, ['balancer', 3000, 'net'], async () => {
    await load.succeed(100)
    // A new connection, which may have to wait until others are timed out.
    const [response] = parseResponses(await exchange(url, [request('{"id":-5,"name":"Yew"}', head)]))
    t.match(response, { status: 200, body: '{"name":"Yew"}' })
  })
  await load.assertServed()
})

t.test('replicas that do not listen yet get no request', async (t) => {
  const { COMPOSE_PROJECT_NAME: project } = stack.env
  const names = [1, 2, 3, 4].map((number) => `${project}-slow-${number}`)
  t.teardown(() => docker(['rm', '--force', ...names]))
  const load = await stack.startClients(t)
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
