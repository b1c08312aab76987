/** The OpenAPI document, the page for people, and the names that both sides of a document share. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ask, build } from './support/build.ts'
import { root } from './support/process.ts'
import { makeKey, startProvider } from './support/provider.ts'
import { everyResponse, type FailureName, failure, failureNumbers } from './support/responses.ts'

const provider = await startProvider(t, makeKey())
const shown = await build(t, { env: { BASE_PATH: '/v1', ...provider.settings } })
const get = (url: string, method: 'GET' | 'HEAD' = 'GET', app = shown) => ask(app, { method, url })
const json = { status: 200, headers: everyResponse }

t.test('every operation of the document needs a token, and lists the failures', async (t) => {
  const { paths } = JSON.parse((await get('/openapi.json')).body)
  for (const path of Object.keys(paths))
    for (const method of Object.keys(paths[path])) {
      const url = `/v1${path.replaceAll(/{\w+}/g, '1')}`
      const reply = await ask(shown, { method: method.toUpperCase() as 'POST', url })
      t.strictSame(reply, failure('MissingToken'), `${method} ${path}`)
      const { responses } = paths[path][method]
      t.match(responses[400].content, { 'application/json': { examples: Object } }, path)
      t.match(responses[200].content, { 'application/json': { schema: { $ref: String } } }, path)
    }
})

t.test('the document needs no token, and describes POST /plants', async (t) => {
  const { body, ...response } = await get('/openapi.json')
  t.strictSame(response, json)
  t.strictSame(await get('/openapi.json', 'HEAD'), { ...json, body: '' })
  const document = JSON.parse(body)
  t.match(document, {
    openapi: /^3\.1\.\d$/,
    info: { title: 'Plant Store', version: /^\d+\.\d+\.\d+$/ }
  })
  t.match(document, { servers: [{ url: '/v1' }], security: [{ bearer: [] }] })
  const { securitySchemes, schemas } = document.components
  t.match(securitySchemes.bearer, { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' })
  const { post } = document.paths['/plants']
  t.equal(post.operationId, 'createPlant')
  t.match(post.parameters, [{ name: 'Idempotency-Key', in: 'header', schema: { type: 'string' } }])
  t.strictSame(Object.keys(post.responses), ['200', '400'])
  const schemaOf = ({ content }: { content: object }) =>
    JSON.stringify(content).match(/#\/[^"]+/)?.[0]
  const responses = [post.requestBody, post.responses[200], post.responses[400]]
  t.strictSame(
    responses.map(schemaOf),
    ['NewPlant', 'Plant', 'Error'].map((name) => `#/components/schemas/${name}`)
  )
  const text = { type: 'string' }
  t.match(schemas.NewPlant, { type: 'object', required: ['id', 'name'] })
  t.match(schemas.NewPlant.properties, {
    id: { type: 'integer', format: 'int64' },
    name: text,
    tag: text
  })
  t.match(schemas.Plant, { required: ['name'], properties: { name: text, tag: text } })
  t.match(schemas.Error, {
    required: ['error', 'message'],
    properties: { error: { type: 'integer' }, message: text }
  })
})

t.test('each failure is an example, with the body that the service sends', async (t) => {
  const { paths } = JSON.parse((await get('/openapi.json')).body)
  const { examples } = paths['/plants'].post.responses[400].content['application/json']
  const names = Object.keys(failureNumbers) as FailureName[]
  t.strictSame(new Set(Object.keys(examples)), new Set(names))
  for (const name of names) {
    const message = name === 'InvalidPlant' ? { message: 'name is required' } : {}
    t.strictSame(JSON.parse(failure(name, message).body), examples[name].value, name)
  }
})

t.test(
  'the page for people: from its own origin, with nothing inline; DOCS=off hides it',
  async (t) => {
    const hidden = await build(t, { env: { DOCS: 'off' } })
    for (const path of ['/docs', '/docs/']) {
      const { status, headers: fields, body } = await get(path)
      t.match(
        { status, type: fields['content-type'] },
        { status: 200, type: 'text/html; charset=utf-8' }
      )
      t.match(
        fields['content-security-policy'],
        /^default-src 'none'; script-src 'self'; style-src 'self'; /
      )
      t.notMatch(fields['content-security-policy'], /unsafe|https?:|\*/)
      t.notMatch(body, /<style|style=|<script(?![^>]*src=)|\son\w+=|https?:/)
      const links = [...body.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link]) => link as string)
      t.ok(links.length > 0)
      for (const link of links) {
        const { pathname } = new URL(link, `http://test${path}`)
        t.match(pathname, /^\/docs\/static\//)
        t.equal((await get(pathname)).status, 200, link)
      }
      t.strictSame(await get(path, 'GET', hidden), failure('NotFound'))
    }
    const { status, body } = await get('/openapi.json', 'GET', hidden)
    t.equal(status, 200)
    t.notOk(body.includes('JWT'), 'nothing of tokens that it does not take')
  }
)

t.test('a file of the page can be kept by a browser, and asked for in parts', async (t) => {
  const fetch = (headers: Record<string, string>) =>
    ask(shown, { method: 'GET', url: '/docs/static/index.css', headers })
  const whole = await fetch({})
  const { etag = '', 'last-modified': modified = '' } = whole.headers
  t.match(whole.headers, { 'cache-control': 'public, max-age=0' })
  for (const fresh of [
    { 'if-none-match': etag },
    { 'if-none-match': '*' },
    { 'if-modified-since': modified }
  ]) {
    const { status, body } = await fetch(fresh)
    t.strictSame({ status, body }, { status: 304, body: '' }, JSON.stringify(fresh))
  }
  const part = await fetch({ range: 'bytes=0-3' })
  t.strictSame([part.status, part.body], [206, whole.body.slice(0, 4)])
  t.match(part.headers, { 'content-range': `bytes 0-3/${whole.body.length}` })
  t.equal(
    (await fetch({ range: 'lines=1' })).body,
    whole.body,
    'a range of another unit is ignored'
  )
})

/** Returns the different names that a pattern finds in a file, in order. */
async function namesIn(file: string, pattern: RegExp) {
  const text = await readFile(join(root, file), 'utf8')
  return [...new Set([...text.matchAll(pattern)].map(([, name]) => name as string))].sort()
}

t.test('the pages name all failures, fields and settings, and no others', async (t) => {
  const failures = await namesIn('docs/errors.md', /^\|\d+\|(\w+)/gm)
  t.strictSame(failures, Object.keys(failureNumbers).sort())
  const { NewPlant } = JSON.parse((await get('/openapi.json')).body).components.schemas
  t.strictSame(
    await namesIn('README.md', /^\|`(\w+)`\|/gm),
    Object.keys(NewPlant.properties).sort()
  )
  const settings = await namesIn('.env.example', /^#?([A-Z][A-Z0-9_]+)=/gm)
  const read = await namesIn('src/config.ts', /^ {2}([A-Z][A-Z_]+): /gm)
  t.strictSame(
    read.filter((name) => !settings.includes(name)),
    []
  )
  const inText = await namesIn('docs/configuration.md', /`([A-Z][A-Z0-9_]+)`/g)
  const inTables = await namesIn('docs/configuration.md', /^\|`([A-Z][A-Z0-9_]+)`\|/gm)
  t.strictSame(
    settings.filter((name) => !inText.includes(name)),
    []
  )
  t.strictSame(
    inTables.filter((name) => !settings.includes(name)),
    []
  )
})

t.test('CONTRIBUTING.md explains each script of package.json, and no others', async (t) => {
  const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const explained = await namesIn('CONTRIBUTING.md', /^\|`npm (?:run )?([\w:]+)`\|/gm)
  t.strictSame(explained, Object.keys(scripts).sort())
})
