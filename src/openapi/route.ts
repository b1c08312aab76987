/** The interface for machines. */
import type { FastifyPluginAsync } from 'fastify'
import { writeDocument } from './document.ts'

interface Options {
  /** What the operation's path begins with. */
  basePath: string
}

const openapi: FastifyPluginAsync<Options> = async (app, { basePath }) => {
  const document = Buffer.from(writeDocument(basePath))
  app.get('/openapi.json', { config: { isInternal: true } }, (_, reply) =>
    reply.header('content-type', 'application/json').send(document)
  )
}

export default openapi
