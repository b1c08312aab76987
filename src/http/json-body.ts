/** How a request's body is read: JSON in UTF-8, its id exact. */
import { isUtf8 } from 'node:buffer'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { parseWithExactId } from './exact-id.ts'
import { NestedTooDeeply } from './json-scan.ts'

/** Gives what a body holds. Throws a Failure. */
function parse(body: Buffer): unknown {
  if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
  try {
    return parseWithExactId(body)
  } catch (error) {
    if (error instanceof NestedTooDeeply) throw new Failure('MalformedBody', { message: error.message })
    throw new Failure('MalformedBody')
  }
}

export default fp(
  async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body: Buffer, done) => {
      // Fastify takes what is thrown here for the body's failure.
      done(null, parse(body))
    })
  },
  { name: 'json-body' }
)
