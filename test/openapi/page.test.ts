/** The page for people: its files, their header fields, and where it is. What it does is in test/browser. */
import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { StartupFault } from '../../src/failures/failure.ts'
import { readPage } from '../../src/openapi/page.ts'
import { failure, headers, read, startService } from '../support/service.ts'

const { url } = await startService(t, { BASE_PATH: '/v1' })

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

const types = {
  svg: 'image/svg+xml',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8'
}

for (const link of links) {
  const path = `/${link}`
  const [, extension] = /\.(\w+)\?v=[0-9a-f]{16}$/.exec(path) ?? []
  const fields = {
    'cache-control': 'public, max-age=31536000, immutable',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'content-type': types[extension as keyof typeof types],
    'x-content-type-options': 'nosniff',
    'x-request-id': 'made'
  }

  t.test(`${link} can be kept for ever`, async (t) => {
    const response = await read(await get(path))
    t.strictSame({ ...response, body: '' }, { status: 200, headers: fields, body: '' })
    const head = await get(path, { method: 'HEAD' })
    t.equal(head.headers.get('content-length'), `${Buffer.byteLength(response.body)}`)
    t.strictSame(await read(head), { status: 200, headers: fields, body: '' })
  })

  t.test(`${link} with the hash of another release is not kept`, async (t) => {
    for (const other of [path.replace(/.$/, 'x'), path.replace(/\?.*/, '')]) {
      t.equal((await get(other)).headers.get('cache-control'), 'no-store')
    }
  })
}

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
    t.strictSame(await read(await get(path)), failure(404, 'there is nothing at this path'), path)
  }
})

t.test('DOCS=off: no page, but still the document', async (t) => {
  const { url } = await startService(t, { DOCS: 'off' })
  for (const path of ['/', '/docs', ...links.map((link) => `/${link}`)]) {
    t.strictSame(
      await read(await fetch(`${url}${path}`)),
      failure(404, 'there is nothing at this path'),
      path
    )
  }
  t.equal((await fetch(`${url}/openapi.json`)).status, 200)
})

t.test('a page that was not prepared says what to run', async (t) => {
  const directory = t.testdir({ 'index.html': '<script src="docs/{swagger-ui-bundle.js}"></script>' })
  const fault = 'public/docs/swagger-ui-bundle.js is missing: run npm run prepare'
  await t.rejects(readPage(pathToFileURL(`${directory}/`)), new StartupFault([fault]))
})
