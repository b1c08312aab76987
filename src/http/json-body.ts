/** How a request's body is read: JSON in UTF-8, its id exact. */
import { isUtf8 } from 'node:buffer'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { parseWithExactId } from './exact-id.ts'
import { NestedTooDeeply } from './json-scan.ts'

export default fp(
  async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_: unknown, body: Buffer) => {
      if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
      try {
        return parseWithExactId(body)
      } catch (error) {
        if (error instanceof NestedTooDeeply) throw new Failure('MalformedBody', { message: error.message })
        throw new Failure('MalformedBody')
      }
    })
  },
  { name: 'json-body' }
)
