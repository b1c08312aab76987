/** The OpenAPI document in the hands of public tools: Redocly's rules, and generated clients, which the build makes and compiles. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import t, { type Test } from 'tap'
import { startService, token } from '../../support/service.ts'
import { catalogue } from '../../../src/failures/catalogue.ts'
import { clients, type Serializer } from './client.ts'

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

const manual = readFileSync(join(import.meta.dirname, '../../docs/clients.md'), 'utf8')
const [, section = ''] = manual.split('\n## Generated clients\n')
const [serializer = '', patch = ''] = section.match(/(?:^ {4}.*\n)+/gm) ?? []
/** Runs lines of the manual. */
const run = (lines: string) => import(`data:text/javascript,${encodeURIComponent(lines)}`)
const { bodySerializer }: { bodySerializer: Serializer } = await run(serializer)

const [server] = JSON.parse(source).servers
const baseUrl = new URL(server.url, url).href
/** Has signs beyond U+FFFF, of which JavaScript makes two. */
const name = 'Kaktus 🌵 𠮷 �'
let id = 2n ** 53n + 1n

/** Creates a plant twice with one key, and then with another. */
async function check(t: Test, create: (typeof clients)[keyof typeof clients], by?: Serializer) {
  const plant = { id, name, tag: 'tropical' }
  id += 2n
  const service = { baseUrl, token, bodySerializer: by }
  const created = { status: 200, data: { name, tag: 'tropical' } }
  t.strictSame(await create(service, plant, 'a'), created)
  t.strictSame(await create(service, plant, 'a'), created)
  t.strictSame(await create(service, plant, 'b'), {
    status: 400,
    error: { error: 409, message: catalogue.DuplicatePlant.message },
    name: 'DuplicatePlant'
  })
  t.strictSame(await rows('select id, name from plants where id = $1', [plant.id]), [
    { id: `${plant.id}`, name }
  ])
}

t.test("with the manual's body serializer, ids beyond 2⁵³ are exact", async (t) => {
  await check(t, clients['openapi-typescript and openapi-fetch'], bodySerializer)
  await check(t, clients["Hey API's fetch and zod"], bodySerializer)
})

t.test("with the manual's line for JSON.stringify, they are exact in every generated client", async (t) => {
  t.teardown(() => Reflect.deleteProperty(BigInt.prototype, 'toJSON'))
  t.throws(() => JSON.stringify({ id }), TypeError)
  await run(patch)
  for (const [title, create] of Object.entries(clients)) await t.test(title, (t) => check(t, create))
})

t.test('without these lines no client stores another id', async (t) => {
  for (const [title, create] of Object.entries(clients)) {
    const service = { baseUrl, token, bodySerializer: undefined }
    const response = await create(service, { id, name }, 'c').catch((error: unknown) => error)
    t.ok(response instanceof TypeError || (response as { name: string }).name === 'InvalidPlant', title)
  }
})
