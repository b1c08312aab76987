/** What operators rely on: TLS in the balancer, what `down` keeps, and a dump that brings it back. */
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { docker } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { createPlant } from '../../support/post.ts'
import { exchange, parseResponses, request as rawRequest } from '../../support/sockets.ts'
import { assertOutlived } from './floods.ts'
import { startStack } from './stack.ts'

const stack = await startStack(t)

t.test('the profile tls: TLS 1.3 and HSTS in every response, also when every replica has died', async (t) => {
  await stack.compose('--profile=tls', 'up', '--detach', '--wait')
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
  await stack.compose('kill', 'api') // compose-updates.test.ts sees the drain
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

/** Creates a plant with a key, and returns its response. */
const post = async (id: number, key: string) =>
  createPlant(await stack.url(), await stack.token(), { id, name: 'Moss' }, { 'idempotency-key': key })

t.test('`down` keeps the plants and the token, `down -v` nothing; a backup brings them back', async (t) => {
  const everything = 'select * from plants order by id'
  const load = await stack.startClients(t)
  await load.assertServed()
  t.equal(await post(-3, 'before'), '200 {"name":"Moss"}')
  const [plants, token] = [await stack.query(everything), await stack.token()]
  t.ok(plants.length > 100)
  await stack.compose('--profile=*', 'down')
  await stack.compose('up', '--detach', '--wait')
  t.strictSame(await stack.query(everything), plants)
  t.equal(await stack.token(), token)

  const backup = join(stack.cwd, 'backup')
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
