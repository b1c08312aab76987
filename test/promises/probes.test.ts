/** Promise 17, the probes: liveness and readiness for whoever asks; and promise 11, what they say while the service ends. */
import { once } from 'node:events'
import t from 'tap'
import { everyResponse, failure, type Reply, success } from '../support/responses.ts'
import { send, startService } from '../support/service.ts'
import { connectTo, request } from '../support/sockets.ts'

const service = await startService(t, { BASE_PATH: '/v1', SHUTDOWN_DELAY_MS: '600000' })
const urls = { '': service.url, 'metrics ': new URL(service.metricsUrl()).origin }

const ok = (body: string): Reply => ({ status: 200, headers: everyResponse, body })
const alive = ok('{"status":"alive"}')
const ready = ok('{"status":"ready"}')
const onlyGet = failure('MethodNotAllowed', { headers: { allow: 'GET, HEAD' } })
const isEnding = failure('NotReady', { message: 'the service is shutting down' })

const probe = request('', { authorization: undefined }, 'GET /readyz HTTP/1.1')

/** Requests without a token; those to the metrics' listener say so. */
type Case = [request: string, response: Reply]

const ask = (request: string) => {
  const [, where = '', method, path] = /^(metrics )?(\w+) (.+)$/.exec(request) ?? []
  return send(`${urls[where as keyof typeof urls]}${path}`, { method: method as string })
}

const usual: Case[] = [
  ['GET /livez', alive],
  ['GET /readyz', ready],
  ['GET /livez?deep=1', alive],
  ['HEAD /livez', ok('')],
  ['HEAD /readyz', ok('')],
  ['POST /livez', onlyGet],
  ['DELETE /readyz', onlyGet],
  ['GET /v1/livez', failure('NotFound')],
  ['metrics GET /livez', alive],
  ['metrics HEAD /livez', ok('')],
  ['metrics GET /readyz', ready],
  ['metrics HEAD /readyz', ok('')],
  ['metrics POST /readyz', onlyGet],
  ['metrics GET /', failure('NotFound')],
  ['metrics POST /metrics', onlyGet],
  ['metrics GET /%zz', failure('MalformedRequest')]
]
const whileEnding: Case[] = [
  ['GET /livez', alive],
  ['GET /readyz', isEnding],
  ['metrics GET /livez', alive],
  ['metrics GET /readyz', isEnding]
]

t.test('they need no token and no BASE_PATH, and have GET and HEAD', async (t) => {
  for (const [request, response] of usual) t.strictSame(await ask(request), response, request)
})

t.test(
  'clients that take all connections keep no probe out at the port of the metrics',
  async (t) => {
    const { url, metricsUrl } = await startService(t, { MAX_CONNECTIONS: '2' })
    const connect = () => {
      const socket = connectTo(url).on('error', () => {})
      t.teardown(() => socket.destroy())
      return socket
    }
    for (const socket of [connect(), connect()]) {
      socket.write(probe)
      await once(socket, 'data')
    }
    await once(connect(), 'close')
    const { origin } = new URL(metricsUrl())
    for (const path of ['livez', 'readyz'])
      t.equal((await send(`${origin}/${path}`, { method: 'GET' })).status, 200, path)
  }
)

t.test(
  'from SIGTERM on, readiness fails, liveness does not, and creates succeed during SHUTDOWN_DELAY_MS',
  async (t) => {
    service.kill('SIGTERM')
    await service.output(/"shutting down"/)
    for (const [request, response] of whileEnding)
      t.strictSame(await ask(request), response, request)
    for (const id of [1, 2])
      t.strictSame(await service.post({ id, name: 'n' }), success({ name: 'n' }))
  }
)
