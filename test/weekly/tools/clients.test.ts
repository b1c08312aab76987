/** What clients use: the samples, Redocly's rules for the OpenAPI document, and a generated client each in TypeScript and in Perl. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import createClient from 'openapi-fetch'
import t from 'tap'
import { execute } from '../../support/execute.ts'
import { failure } from '../../support/responses.ts'
import { startService, token } from '../../support/service.ts'
import type { components, paths } from './generated/plants.ts'

type NewPlant = components['schemas']['NewPlant']

// What the types must refuse.
// @ts-expect-error: a plant has a name
export const nameless: NewPlant = { id: 1n }
// @ts-expect-error: a tag is a string
export const tagless: NewPlant = { id: 1n, name: 'Fern', tag: null }
// @ts-expect-error: an id is a BigInt, as a number would be rounded
export const misnumbered: NewPlant = { id: 1, name: 'Fern' }

const { url, rows } = await startService(t, { BASE_PATH: '/v1' })
const document = await (await fetch(`${url}/openapi.json`)).text()
const [server] = JSON.parse(document).servers
const baseUrl = new URL(server.url, url).href
const duplicate = failure('DuplicatePlant').body
/** Has signs beyond U+FFFF, of which JavaScript makes two. */
const name = 'Kaktus 🌵 𠮷'
const rowsOf = (id: bigint) => rows('select id, name from plants where id = $1', [`${id}`])

t.test("the document keeps all of Redocly's recommended rules", async (t) => {
  const config = await createConfig({ extends: ['recommended-strict'] })
  const lint = (source: string) => lintFromString({ source, absoluteRef: 'openapi.json', config })
  t.strictSame(await lint(document), [])
  const [problem] = await lint(document.replace('"name": "MIT"', '"title": "MIT"'))
  t.match(problem?.ruleId, 'struct', 'the rules see a document that breaks one')
})

t.test(
  "openapi-typescript and openapi-fetch, with the manual's body serializer: ids are exact",
  async (t) => {
    const manual = readFileSync(join(import.meta.dirname, '../../../docs/clients.md'), 'utf8')
    const [lines = ''] = manual.split('\n## Generated clients\n')[1]?.match(/(?:^ {4}.*\n)+/gm) ?? []
    const { bodySerializer } = await import(`data:text/javascript,${encodeURIComponent(lines)}`)
    const client = createClient<paths>({
      baseUrl,
      headers: { authorization: `Bearer ${token}` },
      bodySerializer
    })
    const id = 2n ** 63n - 1n
    const create = async (key: string) => {
      const params = { header: { 'Idempotency-Key': key } }
      const { data, error, response } = await client.POST('/plants', { body: { id, name }, params })
      return { status: response.status, body: data ?? error }
    }
    for (const _ of ['first', 'again']) t.strictSame(await create('a'), { status: 200, body: { name } })
    t.strictSame(await create('b'), { status: 400, body: JSON.parse(duplicate) })
    t.strictSame(await rowsOf(id), [{ id: `${id}`, name }])
  }
)

for (const [command, file, id] of [
  ['sh', 'create-plant.sh', '9223372036854775801'],
  ['node', 'create-plant.mjs', '9223372036854775802']
] as const) {
  t.test(`the sample ${file}`, async (t) => {
    const sample = join(import.meta.dirname, '../../../docs/clients', file)
    const env = { PLANTS_URL: `${baseUrl}/plants`, PLANTS_TOKEN: token }
    t.equal(await execute(command, [sample], { env }), '{"name":"Monstera","tag":"tropical"}')
    t.strictSame(await rowsOf(BigInt(id)), [{ id, name: 'Monstera' }])
    await t.rejects(execute(command, [sample], { env }), { message: /already exists/ })
  })
}

const hasPerlClient = spawnSync('perl', ['-MOpenAPI::Client', '-e', '1']).status === 0

t.test("Perl's OpenAPI::Client", { skip: !hasPerlClient && 'no libopenapi-client-perl' }, async (t) => {
  // It reads version 3.0, whose schemas have no `const`, and whose licences have no `identifier`.
  const older = document
    .replace('"openapi": "3.1.1"', '"openapi": "3.0.3"')
    .replaceAll(/"const": ("[^"]*")/g, '"enum": [$1]')
    .replace(/,\s*"identifier": "MIT"/, '')
  const file = join(t.testdir({ 'openapi.json': older }), 'openapi.json')
  const script = join(import.meta.dirname, 'client.pl')
  const id = -(2n ** 63n)
  const create = (key: string) => execute('perl', [script, file, baseUrl, token, key, `${id}`, name])
  for (const _ of ['first', 'again']) t.equal(await create('a'), `200 {"name":"${name}"}`)
  t.equal(await create('b'), `400 ${duplicate}`)
  t.strictSame(await rowsOf(id), [{ id: `${id}`, name }])
})
