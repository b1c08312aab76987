/** Clients that reset their connections: the process outlives every one of them. */
import { once } from 'node:events'
import t from 'tap'
import { connectTo, request } from '../../harness/http/raw.ts'
import { createDatabase } from '../../harness/postgres/database.ts'
import { startProcess } from '../../harness/service/process.ts'

const service = await startProcess(t, { DATABASE_URL: await createDatabase(t) })
const { url } = service
const [, metricsUrl = ''] = await service.output(/Metrics at (http:[^"]+)/)
const connecting = 'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n'

const probe = request('', { 'content-length': undefined }, 'GET /livez HTTP/1.1')
const halfBody = request('{"id":2,"name":"n"}').slice(0, -5)

/** In the first two the response to the probe says that the rest, which came with it, has been read too. */
const cases: [what: string, bytes: string][] = [
  ['CONNECT after a request', probe + connecting],
  ['half a body after a request', probe + halfBody],
  ['CONNECT', connecting],
  ['a create', request('{"id":1,"name":"n"}')],
  ['bytes that are not a request', 'hello\r\n\r\n']
]

for (const [what, bytes] of [...cases, ['half a body', halfBody] as const]) {
  for (const [name, target] of [
    ['the service', url],
    ['the metrics', new URL(metricsUrl).origin]
  ] as const) {
    t.test(`a reset after ${what}, at ${name}: the process stays alive`, async (t) => {
      // Half a body alone gets no response to wait for.
      for (const isAwaited of bytes === halfBody ? [false] : [true, false]) {
        const socket = connectTo(target)
        await once(socket, 'connect')
        await new Promise((resolve) => socket.write(bytes, resolve))
        if (isAwaited) await once(socket, 'data')
        socket.resetAndDestroy()
      }
      const alive = await Promise.race([
        fetch(`${url}/livez`).then(({ status }) => status),
        service.ended.then(({ stderr }) => stderr)
      ])
      t.equal(alive, 200)
    })
  }
}

t.test('none of them was an uncaught error', async (t) => {
  service.kill('SIGTERM')
  service.kill('SIGINT')
  const { stdout, stderr } = await service.ended
  t.notMatch(stdout, /uncaught/)
  t.equal(stderr, '')
})
