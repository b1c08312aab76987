/** The process that a container asks for its health. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { readProbeUrl } from '../../src/config/address.ts'
import { covered, run } from '../support/process.ts'

/** Starts a service that responds to each path with a status of its own. */
async function listen(t: Test, host: string, statuses: Record<string, number>) {
  const server = createServer(({ url = '' }, response) => {
    response.statusCode = statuses[url] ?? 500
    response.end('because')
  })
  t.teardown(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return String((server.address() as AddressInfo).port)
}

const probe = (t: Test, args: string[], env: Record<string, string>) =>
  run(t, ['src/commands/healthcheck.ts', ...args], { ...covered, ...env })

t.test('it exits with 0 for a service that is alive, whatever its readiness', async (t) => {
  const PORT = await listen(t, '127.0.0.1', { '/livez': 200, '/readyz': 400 })
  t.strictSame(await probe(t, [], { PORT }), { code: 0, stdout: '', stderr: '' })
  t.strictSame(await probe(t, ['/livez'], { PORT, HOST: '127.0.0.1' }), { code: 0, stdout: '', stderr: '' })
  t.strictSame(await probe(t, ['/readyz'], { PORT }), {
    code: 1,
    stdout: '',
    stderr: 'plant-store: /readyz: because\n'
  })
})

t.test('it exits with 1 where nobody listens, and for a path that is not a probe', async (t) => {
  t.match(await probe(t, [], { PORT: '1' }), { code: 1, stderr: /^plant-store: .*ECONNREFUSED/ })
  t.match(await probe(t, ['/plants'], {}), { code: 1, stderr: /^plant-store: usage: / })
})

t.test('it asks at HOST and PORT, on the loopback if HOST stands for all addresses', async (t) => {
  t.equal(readProbeUrl({}), 'http://127.0.0.1:3000')
  t.equal(readProbeUrl({ HOST: '::', PORT: '80' }), 'http://[::1]:80')
  t.equal(readProbeUrl({ HOST: '10.1.2.3', PORT: '81' }), 'http://10.1.2.3:81')
  t.equal(readProbeUrl({ HOST: 'fe00::1' }), 'http://[fe00::1]:3000')
  t.equal(readProbeUrl({ HOST: '', PORT: '' }), 'http://127.0.0.1:3000')
  t.throws(() => readProbeUrl({ PORT: 'x' }), { message: 'PORT must be an integer from 0 to 65535' })
  t.throws(() => readProbeUrl({ PORT: '65536' }), { message: 'PORT must be an integer from 0 to 65535' })
  t.throws(() => readProbeUrl({ PORT: '80/x' }), { message: 'PORT must be an integer from 0 to 65535' })
  for (const HOST of ['localhost', 'fe80::1%eth0'])
    t.throws(() => readProbeUrl({ HOST }), { message: /^HOST must be an IP address such as / })
})
