/** The OpenAPI document in the hands of public tools: Redocly's rules, and a client on generated types. It is made and compiled by the build. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import t from 'tap'
import { startService, token } from '../support/service.ts'
import { connect } from './client.ts'

const { url, rows } = await startService(t, { BASE_PATH: '/v1' })
const source = await (await fetch(`${url}/openapi.json`)).text()
const config = await createConfig({ extends: ['recommended-strict'] })

/** The rules that a document breaks, with what they say. */
async function lint(text: string) {
  const problems = await lintFromString({ source: text, absoluteRef: 'openapi.json', config })
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)
}

t.test("the document keeps all of Redocly's recommended rules", async (t) => {
  t.strictSame(await lint(source), [])
})

t.test('the rules see a document that breaks one', async (t) => {
  const problems = await lint(source.replace('"name": "MIT"', '"title": "MIT"'))
  t.match(problems[0], /^struct: .*name/)
})

t.test('the client that openapi-typescript generates creates a plant with an id beyond 2⁵³', async (t) => {
  const [server] = JSON.parse(source).servers
  const { createPlant } = connect(new URL(server.url, url).href, token)
  const plant = { id: 2n ** 53n + 1n, name: 'Monstera', tag: 'tropical' }
  const created = { status: 200, name: 'Monstera', tag: 'tropical', error: undefined, message: undefined }
  t.strictSame(await createPlant(plant, 'a'), created)
  t.strictSame(await createPlant(plant, 'a'), created)
  t.strictSame(await createPlant(plant, 'b'), {
    status: 400,
    name: undefined,
    tag: undefined,
    error: 409,
    message: 'a plant with this id exists already'
  })
  t.strictSame(await rows('select id, name, tag from plants'), [
    { id: '9007199254740993', name: 'Monstera', tag: 'tropical' }
  ])
})

const manual = readFileSync(join(import.meta.dirname, '../../docs/clients.md'), 'utf8')
const [, section = ''] = manual.split('\n## Generated clients\n')
const [serializer = '', patch = ''] = section.match(/(?:^ {4}.*\n)+/gm) ?? []
const id = -(2n ** 53n) - 1n
const text = `{"id":${id},"name":"Fern"}`

t.test("the manual's body serializer keeps the digits of a BigInt", async (t) => {
  const { bodySerializer } = await import(`data:text/javascript,${encodeURIComponent(serializer)}`)
  t.equal(bodySerializer({ id, name: 'Fern' }), text)
})

t.test("with the manual's line, clients that call JSON.stringify keep them, too", async (t) => {
  t.teardown(() => Reflect.deleteProperty(BigInt.prototype, 'toJSON'))
  t.throws(() => JSON.stringify({ id }), TypeError)
  await import(`data:text/javascript,${encodeURIComponent(patch)}`)
  t.equal(JSON.stringify({ id, name: 'Fern' }), text)
  // As Hey API writes bodies: what toJSON returns is no BigInt any more.
  const asText = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)
  t.equal(JSON.stringify({ id, name: 'Fern' }, asText), text)
})
