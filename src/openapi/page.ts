/** The interface for machines, /openapi.json, and for people: Swagger UI, from this origin alone. */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { type Asset, readPage } from './assets.ts'
import { writeDocument } from './document.ts'

/** Nothing inline, nothing evaluated, nothing from elsewhere; Swagger UI's style sheet has its icons in data URLs. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')

/** Accepts gzip by its name (RFC 9110, section 12.5.3); wildcards are not considered. */
const gzip = /(?:^|,)\s*gzip\s*(?:$|,|;\s*q=(?!0(?:\.0*)?\s*(?:$|,)))/i

async function send(asset: Asset, { headers }: FastifyRequest, reply: FastifyReply) {
  reply.headers({ 'content-type': asset.type, vary: 'accept-encoding' })
  if (!gzip.test(headers['accept-encoding'] ?? '')) return reply.send(asset.bytes)
  return reply.header('content-encoding', 'gzip').send(await asset.gzipped())
}

const directory = new URL('../../public/docs/', import.meta.url)
const config = { isInternal: true } as const

interface Options {
  /** What the operation's path begins with. */
  basePath: string
  /** Whether the page for people is served. */
  docs: boolean
}

const openapi: FastifyPluginAsync<Options> = async (app, { basePath, docs }) => {
  const document = Buffer.from(writeDocument(basePath))
  app.get('/openapi.json', { config }, (_, reply) =>
    reply.header('content-type', 'application/json').send(document)
  )
  if (!docs) return
  const { page, assets } = await readPage(directory)
  for (const url of ['/', '/docs']) {
    app.get(url, { config }, (request, reply) =>
      send(page, request, reply.header('content-security-policy', policy))
    )
  }
  for (const asset of assets) {
    const url = `/docs/${asset.name}`
    app.get(url, { config }, (request, reply) => {
      // Not for another hash: while replicas are replaced, the page of one may ask another, of another version, for its files.
      if (request.url.endsWith(`?v=${asset.hash}`))
        reply.header('cache-control', 'public, max-age=31536000, immutable')
      return send(asset, request, reply)
    })
  }
}

export default openapi
