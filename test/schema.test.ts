/** Promise 18: a plant that waits holds its fields alone, so that its bytes are counted. */
import { fastify } from 'fastify'
import t from 'tap'
import { createJsonReader } from '../src/http/json.ts'
import schema, { NewPlant } from '../src/plants/schema.ts'

t.test('a checked body has no member but its fields, whatever the others are called', async (t) => {
  const app = fastify()
  await app.register(schema)
  const read = createJsonReader(NewPlant)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_: unknown, bytes: Buffer) =>
    read(bytes)
  )
  app.post('/', { schema: { body: NewPlant } }, async ({ body }) => Object.getOwnPropertyNames(body))
  const others = ['x', '', '__proto__', 'constructor', 'hasOwnProperty', 'toString', 'valueOf']
  const members = others.map((name) => `${JSON.stringify(name)}:"much"`)
  const payload = `{"id":1,${members.join()},"name":"n"}`
  const response = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-type': 'application/json' },
    payload
  })
  t.strictSame(response.json(), ['id', 'name'])
})
