/** Promise 17, the probes: liveness and readiness for whoever asks; and promise 11, what they say while the service ends. */
import t from 'tap'
import { everyResponse, failure, type Reply, success } from '../support/responses.ts'
import { send, startService } from '../support/service.ts'

const service = await startService(t, { BASE_PATH: '/v1', SHUTDOWN_DELAY_MS: '600000' })
const urls = { '': service.url, 'metrics ': new URL(service.metricsUrl()).origin }

const ok = (body: string): Reply => ({ status: 200, headers: everyResponse, body })
const alive = ok('{"status":"alive"}')
const ready = ok('{"status":"ready"}')
const onlyGet = failure('MethodNotAllowed', { headers: { allow: 'GET, HEAD' } })
const isEnding = failure('NotReady', { message: 'the service is shutting down' })

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
  ['metrics GET /', failure('NotFound')],
  ['metrics POST /metrics', onlyGet],
  ['metrics GET /%zz', failure('MalformedRequest')]
]
const whileEnding: Case[] = [
  ['GET /livez', alive],
  ['GET /readyz', isEnding],
  ['metrics GET /livez', alive]
]

t.test('they need no token and no BASE_PATH, and have GET and HEAD', async (t) => {
  for (const [request, response] of usual) t.strictSame(await ask(request), response, request)
})

t.test(
  'from SIGTERM on, readiness fails, liveness does not, and creates succeed during SHUTDOWN_DELAY_MS',
  async (t) => {
    service.kill('SIGTERM')
    await service.output(/"shutting down"/)
    for (const [request, response] of whileEnding) t.strictSame(await ask(request), response, request)
    for (const id of [1, 2]) t.strictSame(await service.post({ id, name: 'n' }), success({ name: 'n' }))
  }
)
