/** A signal ends the process: what its clients, its balancer and its log see. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, get, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { checkResponses } from '../../harness/http/contract.ts'
import { connectTo, exchange, open, parseResponses, request } from '../../harness/http/raw.ts'
import { createDatabase, lockTable, query, untilBlocked } from '../../harness/postgres/database.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { covered, startProcess } from '../../harness/service/process.ts'
import { token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { is, until } from '../../harness/time/until.ts'

const DATABASE_URL = await createDatabase(t)
let lastId = 0
const plant = () => JSON.stringify({ id: ++lastId, name: 'n' })

/** Connects, and returns the code of the error where that fails. */
async function tryToConnect(url: string): Promise<string | undefined> {
  const socket = connectTo(url)
  return once(socket, 'connect').then(
    () => void socket.destroy(),
    ({ code }) => code
  )
}

/** Long enough for some requests. */
const delayMs = scaled(4_000)
const startService = (t: Test, env: NodeJS.ProcessEnv = {}) =>
  startProcess(t, { ...covered, DATABASE_URL, SHUTDOWN_DELAY_MS: String(delayMs), ...env })

/** Sends a request on a connection that is kept alive; returns the status, the body and the field Connection. */
function ask(url: string, agent: Agent, body?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const call =
      body === undefined
        ? get(`${url}/readyz`, { agent })
        : httpRequest(`${url}/plants`, { agent, headers, method: 'POST' })
    call.on('error', reject).on('response', (response) => {
      let text = ''
      response.on('data', (chunk) => (text += chunk))
      response.on('end', () => resolve(`${response.statusCode} ${text} ${response.headers.connection}`))
    })
    call.end(body)
  })
}

/** The variable that makes a process run a script before its own. */
const preload = (script: string) => ({
  NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import=data:text/javascript,${script.replaceAll(' ', '%20')}`
})

t.test('SIGUSR1 opens no inspector: with the flags of npm start, the service serves on', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const flags: string[] = scripts.start.match(/--(?!env-file)\S+/g)
  const { url, kill, ended } = await startProcess(t, { DATABASE_URL, SHUTDOWN_DELAY_MS: '0' }, flags)
  kill('SIGUSR1')
  const response = await exchange(url, [request(plant(), { connection: 'close' })])
  t.match(response.toString(), /^HTTP\/1\.1 200 .*\{"name":"n"\}$/s)
  kill('SIGTERM')
  const { code, stderr } = await ended
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
})

t.test('SIGTERM: unready at once, still serving, then closing connections, then exit code 0', async (t) => {
  const { url, kill, ended, output } = await startService(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.equal(await ask(url, agent), '200 {"status":"ready"} keep-alive')
  const began = performance.now()
  kill('SIGTERM')
  await output(/reporting not ready/)
  t.equal(await ask(url, agent), '400 {"error":503,"message":"the service is shutting down"} keep-alive')
  t.equal(await ask(url, agent, plant()), '200 {"name":"n"} keep-alive')
  // In the second half of the delay the connection ends, and the client opens another, which ends with the notice.
  for (let ends = 0; ends < 2; ) {
    const response = await ask(url, agent, plant())
    if (response === '200 {"name":"n"} close') ends++
    else t.equal(response, '200 {"name":"n"} keep-alive')
  }
  const { code, stderr, stdout } = await ended
  t.equal(code, 0)
  t.equal(stderr, '')
  const tookMs = performance.now() - began
  t.ok(tookMs > delayMs && tookMs < delayMs + scaled(16_000), `ended after ${tookMs} ms`)
  t.strictSame(stdout.match(/"msg":"(shutting down|reporting not ready; still serving|shut down)"/g), [
    '"msg":"shutting down"',
    '"msg":"reporting not ready; still serving"',
    '"msg":"shut down"'
  ])
  await t.rejects(ask(url, new Agent()), { code: 'ECONNREFUSED' })
})

t.test('clients that keep a connection, quiet for up to 2.5 s, lose no request at SIGTERM', async (t) => {
  const { url, kill, ended } = await startService(t, { SHUTDOWN_DELAY_MS: '5000' })
  let isOver = false
  const counts = { sent: 0, responses: 0, ends: 0 }
  async function keep(index: number) {
    const client = await open(t, url)
    const quietMs = 1_200 + (index / 60) * 1_300
    while (!isOver) {
      if (client.socket.readableEnded || client.socket.closed) return
      const own = request(plant())
      counts.sent++
      client.send(own)
      const [bytes] = await Promise.race([
        once(client.socket, 'data'),
        once(client.socket, 'end').then(() => [])
      ])
      if (bytes === undefined) return
      counts.responses++
      if (/connection: close/i.test(String(bytes))) return void counts.ends++
      await sleep(quietMs)
    }
  }
  const clients = Array.from({ length: 60 }, (_, index) => keep(index))
  await until('all are served', () => counts.responses >= 60)
  kill('SIGTERM')
  t.equal((await ended).code, 0)
  isOver = true
  await Promise.all(clients)
  t.equal(counts.responses, counts.sent, 'each request has its response')
  t.ok(counts.ends >= 50, `${counts.ends} of 60 learned of it from a response`)
})

t.test('a slow reader gets all its responses before the process ends', async (t) => {
  const { url, kill, ended, output } = await startService(t, { SHUTDOWN_DELAY_MS: '0' })
  const name = 'n'.repeat(1_000_000)
  const socket = connectTo(url)
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk)).pause()
  for (let count = 0; count < 5; count++) socket.write(request(JSON.stringify({ id: ++lastId, name })))
  await output(/"msg":"created"/)
  kill('SIGTERM')
  await output(/"msg":"shutting down"/)
  // A connection that was not accepted yet when it stopped listening is reset.
  await until('the service listens no more', () => tryToConnect(url), is('ECONNREFUSED'))
  socket.resume()
  if (!socket.closed) await once(socket, 'close')
  const responses = checkResponses(Buffer.concat(chunks))
  const bodies = responses.map(({ body }) => body)
  t.strictSame(
    bodies,
    Array.from(responses, () => `{"name":"${name}"}`)
  )
  // A create whose response nobody has asked for yet, since nothing of it was read, is not carried out.
  const created = await query(DATABASE_URL, 'select id from plants where name = $1', [name])
  t.equal(responses.length, created.length)
  t.equal((await ended).code, 0)
})

t.test('a second signal ends the process at once, with exit code 1, and logs what was left', async (t) => {
  const { url, kill, ended, output } = await startService(t, { SHUTDOWN_DELAY_MS: String(scaled(24_000)) })
  const began = performance.now()
  kill('SIGTERM')
  await output(/reporting not ready/)
  const holder = await lockTable(t, DATABASE_URL)
  const waiting = exchange(url, [request(plant())])
  await untilBlocked(DATABASE_URL)
  const refused = parseResponses(
    await exchange(url, [request('', {}, 'GET /none HTTP/1.1').repeat(300)], { halfClose: true })
  )
  t.equal(refused.length, 300)
  const [, page = ''] = await output(/Metrics at ([^"]+)/)
  const connections = async () =>
    parseMetrics(await (await fetch(page)).text()).value('plant_store_http_connections')
  await until('theirs is closed', connections, is(1))
  kill('SIGINT')
  const { code, stdout } = await ended
  t.equal(code, 1)
  t.match(
    stdout,
    /"level":60,.*"signal":"SIGINT","connections":1,"requests":1,"msg":"second signal; exiting now"/
  )
  // Of requests without a caller only some have a line of their own; the log has the number of the others.
  const ofRefused = stdout.split('"failure":404').length - 1
  const unlogged = stdout.matchAll(/"requests":(\d+),"msg":"requests without a caller were not logged"/g)
  t.ok(ofRefused < 300)
  const requests = [...unlogged].reduce((sum, [, requests]) => sum + Number(requests), ofRefused)
  t.equal(requests, 300)
  t.ok(performance.now() - began < scaled(20_000))
  t.strictSame(await waiting, Buffer.alloc(0))
  await holder.query('rollback')
})

t.test('a shutdown beyond its limit is cut off, with exit code 1, and logs what was left', async (t) => {
  // The limit leaves time for every create: only a fault takes longer.
  const { kill, ended } = await startService(t, {
    SHUTDOWN_DELAY_MS: '0',
    HEADERS_TIMEOUT_MS: '100',
    WRITE_DEADLINE_MS: '100',
    SHUTDOWN_TIMEOUT_MS: '2201',
    ...preload("import{Server}from'node:http';Server.prototype.close=()=>{}")
  })
  kill('SIGTERM')
  const { code, stdout } = await ended
  t.equal(code, 1)
  t.match(
    stdout,
    /"level":60,.*"limitMs":2201,"connections":0,"requests":0,"msg":"shutdown timed out; exiting"/
  )
})

t.test('an uncaught error is logged, and the process shuts down with exit code 1', async (t) => {
  const { url, kill, ended, output } = await startService(
    t,
    preload("process.on('SIGUSR1',()=>{throw new Error('out of the blue')})")
  )
  kill('SIGUSR1')
  await output(/uncaught error/)
  t.equal(await ask(url, new Agent(), plant()), '200 {"name":"n"} close')
  const { code, stdout } = await ended
  t.equal(code, 1)
  t.match(stdout, /"level":60,.*out of the blue.*"msg":"uncaught error; shutting down"/)
})
