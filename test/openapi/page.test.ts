/** The page for people: its files, their header fields, and where it is. What it does is in test/browser. */
import { EventEmitter, once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { basename } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { gunzipSync } from 'node:zlib'
import type { FastifyReply } from 'fastify'
import t from 'tap'
import { open, type RawResponse, request as write } from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { shows } from '../../harness/service/metrics.ts'
import { failure, headers, read, startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { createSender, lingerMs, readPage, slowMs } from '../../src/openapi/assets.ts'

const service = await startService(t, { BASE_PATH: '/v1' })
const { url, databaseUrl } = service

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const get = (path: string, init: RequestInit = {}) => fetch(`${url}${path}`, init)
const html = await (await get('/docs')).text()
const links = [...html.matchAll(/(?:href|src)="(docs\/[^"]+)"/g)].map(([, link]) => link as string)

t.test('/ and /docs are the page, without a token and without a redirect', async (t) => {
  for (const path of ['/', '/docs', '/docs?a=b']) {
    const { redirected } = await get(path)
    t.notOk(redirected)
    t.strictSame(await read(await get(path)), {
      status: 200,
      headers: {
        'cache-control': 'no-store',
        'content-security-policy': policy,
        'content-type': 'text/html; charset=utf-8',
        'x-content-type-options': 'nosniff',
        'x-request-id': 'made'
      },
      body: html
    })
  }
})

t.test('the document names the path in front of the operations', async (t) => {
  const { servers, paths } = JSON.parse(await (await get('/openapi.json')).text())
  t.strictSame(servers, [{ url: '/v1', description: 'This service' }])
  t.ok(paths['/plants'])
})

t.test('the absolute form of a request target without a path is the page', async (t) => {
  for (const path of ['http://plants.test', 'http://plants.test/', 'http://plants.test?a=b', '/?a=b']) {
    const [response] = await once(request(url, { path }).end(), 'response')
    t.equal(await text(response), html, path)
  }
})

t.test('the page has nothing inline, and refers to its own origin only', async (t) => {
  t.notMatch(html, /<style|style=|<script(?![^>]*src=)|\son\w+=/)
  t.notMatch(html, /https?:|"\//)
  t.equal(links.length, 5)
})

const types = { svg: 'image/svg+xml', css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' }

const directoryOf = (link: string) =>
  link.includes('swagger-ui') ? 'node_modules/swagger-ui-dist' : 'public/docs'

/** Requests a path with this Accept-Encoding; returns the response and its body's bytes. */
async function getRaw(path: string, encoding?: string, method = 'GET') {
  const fields = encoding === undefined ? {} : { 'accept-encoding': encoding }
  const [response] = await once(request(`${url}${path}`, { method, headers: fields }).end(), 'response')
  return { fields: response.headers, bytes: await buffer(response) }
}

for (const link of links) {
  const path = `/${link}`
  const [, extension] = /\.(\w+)\?v=[0-9a-f]{16}$/.exec(path) ?? []
  const fields = {
    'cache-control': 'public, max-age=31536000, immutable',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'content-type': types[extension as keyof typeof types],
    'content-encoding': 'gzip',
    'x-content-type-options': 'nosniff',
    'x-request-id': 'made'
  }

  t.test(`${link} can be kept for ever`, async (t) => {
    const response = await read(await get(path))
    t.strictSame({ ...response, body: '' }, { status: 200, headers: fields, body: '' })
    t.strictSame(await read(await get(path, { method: 'HEAD' })), { status: 200, headers: fields, body: '' })
  })

  t.test(`${link} is the same file, compressed, whatever a client accepts`, async (t) => {
    const { body } = await read(await get(path))
    for (const encoding of [undefined, 'gzip, deflate, br, zstd', 'gzip;q=0, *', 'identity']) {
      const { fields, bytes } = await getRaw(path, encoding)
      t.equal(fields['content-encoding'], 'gzip', `${encoding}`)
      t.equal(fields.vary, undefined)
      t.equal(`${gunzipSync(bytes)}`, body)
      const head = await getRaw(path, encoding, 'HEAD')
      t.strictSame([head.fields['content-length'], head.bytes.length], [`${bytes.length}`, 0])
    }
    const original = await readFile(
      new URL(`../../${directoryOf(link)}/${basename(path.replace(/\?.*/, ''))}`, import.meta.url)
    )
    t.equal(body, `${original}`)
  })

  t.test(`${link} with the hash of another release is not kept`, async (t) => {
    for (const other of [path.replace(/.$/, 'x'), path.replace(/\?.*/, '')]) {
      t.equal((await get(other)).headers.get('cache-control'), 'no-store')
    }
  })
}

t.test('a browser loads the page and all its files in less than 500 kB', async (t) => {
  let bytes = 0
  for (const path of ['/docs', '/openapi.json', ...links.map((link) => `/${link}`)])
    bytes += (await getRaw(path, 'gzip, deflate, br')).bytes.length
  t.comment(`${bytes} bytes`)
  t.ok(bytes < 500_000, `${bytes} bytes`)
})

t.test('files that wait for clients are bounded together: more get 429, until some are sent', async (t) => {
  const path = `/${links.find((link) => link.includes('bundle'))}`
  const { bytes } = await getRaw(path, 'gzip')
  const room = Math.floor((8 * 2 ** 20) / bytes.length)
  // What was sent of late counts on.
  await sleep(2 * lingerMs)
  const holder = await lockTable(t, databaseUrl)
  // The file's response waits for the create's before it: no kernel takes it.
  const asset = write('', { 'accept-encoding': 'gzip', 'content-length': undefined }, `GET ${path} HTTP/1.1`)
  const clients = await Promise.all(
    Array.from({ length: room + 5 }, async (_, id) => {
      const client = await open(t, url)
      client.send(write(JSON.stringify({ id, name: 'n' }), {}, 'POST /v1/plants HTTP/1.1') + asset)
      return client
    })
  )
  const refused = failure(429, 'too many files are being sent; retry later', {}, false)
  await shows(t, service, 'http_requests_in_flight', 2 * clients.length)
  t.strictSame(await read(await get(path)), refused)
  t.equal((await get(path, { method: 'HEAD' })).status, 200, 'a HEAD takes nothing')
  await holder.query('rollback')
  const responses = await Promise.all(clients.map((client) => client.responses(2)))
  const files = responses.map(([, file]) => file as RawResponse)
  t.strictSame(
    responses.map(([create]) => create?.status),
    clients.map(() => 200)
  )
  t.equal(files.filter(({ status }) => status === 200).length, room)
  for (const { body } of files.filter(({ status }) => status !== 200)) t.equal(body, refused.body)
  for (const { socket } of clients) socket.destroy()
  await until('there is room again', async () => (await get(path)).status === 200)
})

/** A request for a file of 5 MiB, of which one has room; its response ends when it is told. */
function fakeReply() {
  const raw = new EventEmitter()
  const socket = Object.assign(new EventEmitter(), { isDestroyed: false, destroy: () => {} })
  socket.destroy = () => Object.assign(socket, { isDestroyed: true })
  const reply = {
    request: { method: 'GET', url: '/docs/a', socket },
    raw,
    header: () => reply,
    send: () => 'sent'
  }
  return { raw, socket, reply: reply as unknown as FastifyReply }
}

const fiveMiB = { bytes: Buffer.alloc(5 * 2 ** 20), version: 'v' }

t.test('a file that the kernel has accepted at once counts for a while', async (t) => {
  const send = createSender()
  const [first, next] = [fakeReply(), fakeReply()]
  t.equal(send(first.reply, fiveMiB), 'sent')
  first.raw.emit('close')
  t.throws(() => send(next.reply, fiveMiB), { name: 'RateLimited' })
  await sleep(2 * lingerMs)
  t.equal(send(next.reply, fiveMiB), 'sent')
})

t.test('a file that takes long ends where another has no room', async (t) => {
  const send = createSender()
  const [slow, other, last] = [fakeReply(), fakeReply(), fakeReply()]
  const began = performance.now()
  send(slow.reply, fiveMiB)
  t.throws(() => send(other.reply, fiveMiB), { name: 'RateLimited' })
  t.equal(slow.socket.isDestroyed, false, 'not at once')
  Object.defineProperty(performance, 'now', { value: () => began + slowMs + 1_000, configurable: true })
  t.teardown(() => Reflect.deleteProperty(performance, 'now'))
  t.throws(() => send(last.reply, fiveMiB), { name: 'RateLimited' })
  t.equal(slow.socket.isDestroyed, true)
})

t.test('one file at a time on a connection, whatever a HEAD before it does', async (t) => {
  const path = `/${links.find((link) => link.includes('page.js'))}`
  const ask = (method: string) => write('', { 'content-length': undefined }, `${method} ${path} HTTP/1.1`)
  const holder = await lockTable(t, databaseUrl)
  const client = await open(t, url)
  // The HEAD ends while the file waits for the create.
  client.send(ask('HEAD') + write('{"id":-7,"name":"n"}', {}, 'POST /v1/plants HTTP/1.1') + ask('GET'))
  await shows(t, service, 'http_requests_in_flight', 2)
  client.send(ask('HEAD') + ask('GET'))
  await shows(t, service, 'http_requests_in_flight', 4)
  const chunks: Buffer[] = []
  client.socket.on('data', (chunk) => chunks.push(chunk))
  await holder.query('rollback')
  await until('all is sent', () => /too many files are being sent/.test(`${Buffer.concat(chunks)}`))
  client.socket.destroy()
  t.equal((await get(path)).status, 200)
})

t.test('another method of any of these paths gets 405', async (t) => {
  for (const path of ['/', '/docs', '/docs/page.js', '/docs/swagger-ui.css']) {
    for (const method of ['POST', 'OPTIONS', 'DELETE', 'QUERY']) {
      const response = await read(await get(path, { method, headers }))
      t.strictSame(
        response,
        failure(405, 'this path does not support this method', { allow: 'GET, HEAD' }),
        path
      )
    }
  }
})

t.test('there is nothing else', async (t) => {
  for (const path of ['//', '/docs/', '/docs/index.html', '/docs/..%2fpackage.json', '/v1', '/v1/docs']) {
    t.strictSame(await read(await get(path)), failure(404, 'no such path'), path)
  }
})

t.test('DOCS=off: no page, but still the document', async (t) => {
  const { url } = await startService(t, { DOCS: 'off' })
  for (const path of ['/', '/docs', ...links.map((link) => `/${link}`)]) {
    t.strictSame(await read(await fetch(`${url}${path}`)), failure(404, 'no such path'), path)
  }
  t.equal((await fetch(`${url}/openapi.json`)).status, 200)
})

t.test('a page that was not prepared says what to run', async (t) => {
  const directory = t.testdir({ 'index.html': '<script src="docs/{swagger-ui-bundle.js}"></script>' })
  const fault = 'public/docs/swagger-ui-bundle.js is missing: run npm run prepare'
  await t.rejects(readPage(pathToFileURL(`${directory}/`)), new StartupFault([fault]))
})
