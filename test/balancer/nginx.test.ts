/** Behind nginx with the project's example: the contract holds, also for its own responses, and a restart loses nothing. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { assertHistory } from '../../harness/histories/assert-rows.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { exchange, parseResponses } from '../../harness/http/raw.ts'
import { createAuthority, createCertificate } from '../../harness/postgres/certificates.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { token } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { catalogue, type FailureName } from '../../src/failures/catalogue.ts'
import { ask, startInstances } from './instances.ts'

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
const skip = spawnSync('nginx', ['-v'], { env }).status !== 0 && 'nginx is not on the PATH'
const example = join(import.meta.dirname, '../../ops/nginx/nginx.conf')

const authority = createAuthority('plants authority')
const { key, cert } = createCertificate('plants.test', authority)
const tls = { servername: 'plants.test', ca: authority.cert }

/** Starts nginx over two ports; ends it at teardown. Returns its addresses, the second one with TLS. */
async function startNginx(t: Test, [first, second]: number[]) {
  const [port, tlsPort] = [await freePort(), await freePort()]
  const directory = t.testdir({ 'plant-store.pem': `${cert}${key}` })
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${name};`
  )
  const config = (await readFile(example, 'utf8'))
    .replace('http {\n', `http {\n  access_log off;\n  ${temporary.join(' ')}\n`)
    .replace('127.0.0.1:3000', `127.0.0.1:${port}`)
    .replace('127.0.0.1:3443', `127.0.0.1:${tlsPort}`)
    .replaceAll('/etc/nginx/plant-store.pem', `${directory}/plant-store.pem`)
    .replaceAll('/run/plant-store', directory)
    .replaceAll('3001', String(first))
    .replaceAll('3002', String(second))
  await writeFile(join(directory, 'nginx.conf'), config)
  const global = 'daemon off; pid nginx.pid; error_log stderr crit;'
  const args = ['-p', `${directory}/`, '-c', 'nginx.conf', '-e', 'stderr', '-g', global]
  const child = spawn('nginx', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  t.teardown(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  })
  const url = `http://127.0.0.1:${port}`
  await until('nginx listens', () => fetch(url))
  return [url, `https://127.0.0.1:${tlsPort}`, directory] as const
}

async function startBehindNginx(t: Test) {
  const instances = await startInstances(t, 2, { SHUTDOWN_DELAY_MS: '1000' })
  const [url, tlsUrl, directory] = await startNginx(t, instances.ports)
  return { ...instances, url, tlsUrl, directory }
}

const unavailable = 'the service cannot be reached: the plant may have been stored; repeat the same request'

t.test('the contract holds through nginx, and for its own responses', { skip }, async (t) => {
  const { url, tlsUrl, ports, end } = await startBehindNginx(t)
  const cases: [string, string, number][] = [
    ['a good request', ask('{"id":1,"name":"n"}'), 0],
    ['a duplicate', ask('{"id":1,"name":"n"}'), 409],
    ['no token', ask('{}', { authorization: undefined }), 401],
    ['an unknown path', ask('', {}, 'POST /nowhere HTTP/1.1'), 404],
    ['a path with two slashes', ask('', {}, 'POST //plants HTTP/1.1'), 404],
    ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 405],
    ['a body that is not JSON', ask('{'), 400],
    ['a body that is announced as too large', ask('{}', { 'content-length': '99999999' }), 413],
    ["nginx's own: a header that is too large", ask('{}', { x: 'x'.repeat(40_000) }), 400],
    ["nginx's own: a length that is not a number", ask('{}', { 'content-length': 'x' }), 400],
    ["nginx's own: two hosts", ask('{}', { Host: 'a' }), 400]
  ]
  const judge = async (title: string, bytes: string, error: number) => {
    const [response] = parseResponses(await exchange(url, [bytes]))
    t.notOk(response?.headers['strict-transport-security'], title)
    t.notOk(response?.headers['keep-alive'], title)
    const [encrypted] = parseResponses(await exchange(tlsUrl, [bytes.replace('"id":1', '"id":3')], { tls }))
    t.equal(encrypted?.headers['strict-transport-security'], 'max-age=31536000', title)
    t.equal(encrypted?.status, response?.status, title)
    t.equal(response?.headers['content-type'], 'application/json', title)
    t.equal(response?.status, error === 0 ? 200 : 400, title)
    const { error: found = 0, message, ...rest } = JSON.parse(response?.body ?? '')
    t.equal(found, error, title)
    if (error === 0) return
    t.strictSame([typeof message, rest], ['string', {}], title)
    t.equal(catalogue[response?.headers['error-name'] as FailureName].error, error, title)
    return { message, outcome: response?.headers['write-outcome'] }
  }
  for (const [title, bytes, error] of cases) await judge(title, bytes, error)
  for (const port of ports) await end(port, 'SIGTERM')
  const none = await judge("nginx's own: no instance", ask('{"id":2,"name":"n"}'), 503)
  t.strictSame(none, { message: unavailable, outcome: 'unknown' })
})

t.test('a rolling restart, with the files that the units make: no create fails', { skip }, async (t) => {
  const { url, ports, end, start, databaseUrl, directory } = await startBehindNginx(t)
  const load = startRivals({ urls: [url], token, clients: 16 })
  t.teardown(() => load.stop())
  await load.succeed(500)
  for (const port of ports) {
    await writeFile(join(directory, `${port}.away`), '')
    t.equal(await end(port, 'SIGTERM'), 0)
    await load.succeed(500)
    await start(port)
    await rm(join(directory, `${port}.away`))
    await load.succeed(500)
  }
  await assertHistory(t, databaseUrl, await load.stop())
})
