/** Clients: the samples of docs/clients.md, and the OpenAPI document in the hands of Redocly's rules and a generated client. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import createClient from 'openapi-fetch'
import t from 'tap'
import { execute } from '../../support/execute.ts'
import { root } from '../../support/process.ts'
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
  t.strictSame(await lintFromString({ source: document, absoluteRef: 'openapi.json', config }), [])
})

t.test(
  "openapi-typescript and openapi-fetch, with the manual's body serializer: ids are exact",
  async (t) => {
    const manual = readFileSync(join(import.meta.dirname, '../../../docs/clients.md'), 'utf8')
    const [lines = ''] =
      manual.split('\n## Generated clients\n')[1]?.match(/(?:^ {4}.*\n)+/gm) ?? []
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
    for (const _ of ['first', 'again'])
      t.strictSame(await create('a'), { status: 200, body: { name } })
    t.strictSame(await create('b'), { status: 400, body: JSON.parse(duplicate) })
    t.strictSame(await rowsOf(id), [{ id: `${id}`, name }])
  }
)

for (const [command, sample] of [
  ['sh', 'create-plant.sh'],
  [process.execPath, 'create-plant.mjs']
] as const)
  t.test(
    `the sample ${sample} stores its plant, and the next run is told that it is there`,
    async (t) => {
      const { url, rows } = await startService(t)
      const env = { PLANTS_URL: `${url}/plants`, PLANTS_TOKEN: token, PLANTS_RETRY_SECONDS: '10' }
      const run = () => execute(command, [join(root, 'docs/clients', sample)], { env })
      await run()
      t.equal((await rows('select id from plants')).length, 1)
      await t.rejects(run(), /409/)
      for (const missing of ['PLANTS_URL', 'PLANTS_TOKEN'])
        await t.rejects(
          execute(command, [join(root, 'docs/clients', sample)], {
            env: { ...env, [missing]: '' }
          }),
          { code: 1, message: /set PLANTS_URL and PLANTS_TOKEN/ },
          'nothing was sent'
        )
    }
  )

t.test('create-plant.sh says that nothing is stored where it reaches nobody', async (t) => {
  const env = {
    PLANTS_URL: 'http://127.0.0.1:1/plants',
    PLANTS_TOKEN: token,
    PLANTS_RETRY_SECONDS: '0'
  }
  const run = execute('sh', [join(root, 'docs/clients/create-plant.sh')], { env })
  await t.rejects(run, { code: 1, message: /write outcome: none/ })
})
