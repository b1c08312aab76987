/** Clients that reset their connections: the process outlives every one of them. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createDatabase } from '../support/database.ts'
import { start } from '../support/process.ts'
import { request } from '../support/raw.ts'
import { token } from '../support/service.ts'

const service = start(t, ['src/server.ts'], {
  DATABASE_URL: await createDatabase(t),
  AUTH_TOKENS: `tester:${token}`,
  HOST: '127.0.0.1',
  PORT: '0'
})
const [, url = ''] = await service.output(/Server listening at (http:[^"]+)/)
const [, metricsUrl = ''] = await service.output(/Metrics at (http:[^"]+)/)
const connecting = 'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n'

const cases: [what: string, bytes: string][] = [
  ['CONNECT', connecting],
  ['CONNECT behind a request', request('', {}, 'GET /livez HTTP/1.1') + connecting],
  ['a create', request('{"id":1,"name":"n"}')],
  ['half a body', request('{"id":2,"name":"n"}').slice(0, -5)],
  ['bytes that are no request', 'hello\r\n\r\n']
]

for (const [what, bytes] of cases) {
  for (const target of [url, new URL(metricsUrl).origin]) {
    t.test(
      `a reset ${what === 'half a body' ? 'in' : 'behind'} ${what}, at ${target === url ? 'the service' : 'the metrics'}`,
      async (t) => {
        for (const isAnswered of [true, false]) {
          const { hostname, port } = new URL(target)
          const socket = connect(Number(port), hostname)
          await once(socket, 'connect')
          socket.write(bytes)
          if (isAnswered && what !== 'half a body') await once(socket, 'data')
          else await sleep(50)
          socket.resetAndDestroy()
          await sleep(50)
        }
        const alive = await Promise.race([
          fetch(`${url}/livez`).then(({ status }) => status),
          service.ended.then(({ stderr }) => stderr)
        ])
        t.equal(alive, 200)
      }
    )
  }
}

t.test('none of them was an uncaught error', async (t) => {
  service.kill('SIGTERM')
  service.kill('SIGINT')
  const { stdout, stderr } = await service.ended
  t.notMatch(stdout, /uncaught/)
  t.equal(stderr, '')
})
