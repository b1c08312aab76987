/** The stack's edge: what reloads without a failed request, what a reload refuses, and where the ports are published. */
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { inspect } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { createAuthority } from '../../support/postgres/certificates.ts'
import { startStack } from './stack.ts'

const stack = await startStack(t, { BIND: '127.0.0.2' })
await stack.compose('--profile=tls', 'up', '--detach', '--wait')
const published = await stack.compose('port', 'balancer-tls', '3443')

/** Writes a file of the checkout. */
const change = (path: string, text: string) => writeFile(join(stack.cwd, path), text)

/** Replaces text in HAProxy's configuration of the checkout. */
async function edit(name: string, from: string, to: string) {
  const path = join('ops/haproxy', name)
  const text = await readFile(join(stack.cwd, path), 'utf8')
  t.ok(text.includes(from), `${path} has ${from}`)
  await change(path, text.replace(from, to))
}

/** Runs a reload; a file is imported as the certificate. */
const reload = (...args: string[]) => stack.operate('reload', args)

/** What a client sees over TLS on a new connection: the certificate, and for how long it may come by TLS only. */
async function look() {
  const call = request(`https://${published}/readyz`, { agent: false, rejectUnauthorized: false })
  const [response] = await once(call.end(), 'response')
  response.resume()
  const { subject } = (response.socket as TLSSocket).getPeerCertificate()
  return { name: subject.CN, hsts: response.headers['strict-transport-security'] }
}

/** Begins a create whose body comes in at a byte a second. */
async function startSlowClient(t: Test) {
  const { hostname, port } = new URL(await stack.url())
  const socket = connect(Number(port), hostname).on('error', () => {})
  const head = `authorization: Bearer ${await stack.token()}\r\ncontent-type: application/json\r\ncontent-length: 1000`
  socket.write(`POST /plants HTTP/1.1\r\nhost: slow\r\n${head}\r\n\r\n`)
  const timer = setInterval(() => socket.write(' '), 1_000)
  t.teardown(() => {
    clearInterval(timer)
    socket.destroy()
  })
}

t.test('a reload beside a slow client: the new files are in effect, and no request fails', async (t) => {
  const load = await stack.startClients(t)
  await startSlowClient(t)
  const { cert, key } = createAuthority('imported')
  await change('new.pem', cert + key)
  await edit('tls.cfg', 'max-age=31536000', 'max-age=86400')
  t.strictSame(await look(), { name: 'localhost', hsts: 'max-age=31536000' })
  await reload('new.pem')
  t.strictSame(await look(), { name: 'imported', hsts: 'max-age=86400' })
  await load.succeed(100)
  await reload()
  await load.assertServed()
})

t.test('a reload that HAProxy refuses says why and changes nothing', async (t) => {
  const before = await look()
  const read = () =>
    stack.compose(
      'exec',
      '-T',
      'balancer-tls',
      'cat',
      '/config/haproxy/haproxy.cfg',
      '/run/secrets/balancer.pem'
    )
  const files = await read()
  await edit('haproxy.cfg', 'timeout connect 2s', 'timeout connect 2 parsecs')
  await t.rejects(reload(), /haproxy\.cfg:\d+\] : .*'parsecs'[\s\S]*nothing was changed/)
  await edit('haproxy.cfg', 'timeout connect 2 parsecs', 'timeout connect 2s')
  const flags = ['-x509', '-newkey', 'rsa:1024', '-noenc', '-subj', '/CN=weak', '-keyout', 'weak.key']
  const weak = await execute('openssl', ['req', ...flags], { cwd: stack.cwd })
  await change('weak.pem', `${weak}\n${await readFile(join(stack.cwd, 'weak.key'), 'utf8')}`)
  await t.rejects(reload('weak.pem'), /ee key too small[\s\S]*nothing was changed/)
  const [one, another] = [createAuthority('one'), createAuthority('another')]
  await change('mixed.pem', one.cert + another.key)
  await t.rejects(reload('mixed.pem'), /inconsistencies between private key[\s\S]*nothing was changed/)
  await t.rejects(reload('absent.pem'), /absent\.pem is no file/)
  t.equal(await read(), files)
  t.strictSame(await look(), before)
})

t.test('BIND publishes both ports, with a warning where clear text can come from elsewhere', async (t) => {
  for (const address of [published, new URL(await stack.url()).host]) t.match(address, /^127\.0\.0\.2:/)
  const run = (command: string, env: Record<string, string>) =>
    execute('bash', ['-c', `docker compose ${command} 2>&1`], {
      cwd: stack.cwd,
      env: { ...stack.env, COMPOSE_PROGRESS: 'quiet', ...env }
    })
  const setup = 'run --rm -T --no-deps setup'
  t.equal(await run(setup, {}), '')
  t.match(
    await run(setup, { BIND: '0.0.0.0' }),
    /^setup: warning: other machines .* clear text to 0\.0\.0\.0/
  )
  t.equal(await run(setup, { BIND: '0.0.0.0', PLAIN_BIND: '127.0.0.1' }), '')
  await t.rejects(run('config', { BIND: 'localhost' }), /invalid ip address: localhost/)
})

t.test('no client chooses how long the stop of a balancer takes', async (t) => {
  for (const { Config: config } of await inspect(...(await stack.running('balancer')))) {
    t.equal(config.StopTimeout, 2)
    t.equal(config.StopSignal, 'SIGUSR1', 'requests may end until then')
  }
})
