/** Promise 18: a plant that waits holds its fields alone, so that its bytes are counted. */
import { fastify } from 'fastify'
import t from 'tap'
import { createJsonReader } from '../src/http/body.ts'
import schema, { NewPlant } from '../src/plants/schema.ts'

t.test('a checked body has no member but its fields, whatever the others are called', async (t) => {
  const app = fastify()
  await app.register(schema)
  const others = ['x', '', '__proto__', 'constructor', 'hasOwnProperty', 'toString', 'valueOf']
  const members = others.map((name) => `${JSON.stringify(name)}:"much"`)
  const body = createJsonReader(NewPlant)(Buffer.from(`{"id":1,${members.join()},"name":"n"}`))
  const compile = app.validatorCompiler as unknown as (route: object) => (body: unknown) => { value: object }
  const { value } = compile({ schema: NewPlant })(body)
  t.strictSame(Object.getOwnPropertyNames(value), ['id', 'name'])
})
