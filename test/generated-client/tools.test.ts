/** The OpenAPI document in the hands of public tools: Redocly's rules, and a client on generated types. It is made and compiled by the build. */
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

t.test('the client that openapi-typescript generates creates a plant', async (t) => {
  const [server] = JSON.parse(source).servers
  const { createPlant } = connect(new URL(server.url, url).href, token)
  const plant = { id: 7, name: 'Monstera', tag: 'tropical' }
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
    { id: '7', name: 'Monstera', tag: 'tropical' }
  ])
})
