/** The interface for machines. */
import type { FastifyPluginAsync } from 'fastify'
import { refuseOtherMethods } from '../http/methods.ts'
import { writeDocument } from './document.ts'

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
