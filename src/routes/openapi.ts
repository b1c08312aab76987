/** The interface for machines. */
import type { FastifyPluginAsync } from 'fastify'
import { writeDocument } from '../openapi/document.ts'
import { refuseOtherMethods } from './methods.ts'

interface Options {
  /** What the operation's path begins with. */
  basePath: string
}

const openapi: FastifyPluginAsync<Options> = async (app, { basePath }) => {
  const document = Buffer.from(writeDocument(basePath))
  app.get('/openapi.json', (_, reply) => reply.header('content-type', 'application/json').send(document))
  refuseOtherMethods(app, '/openapi.json', ['GET', 'HEAD'])
}

export default openapi
