/** The interface's document for machines, /openapi.json, and its page for people: Swagger UI, from this origin alone. */
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { FastifyPluginAsync } from 'fastify'
import { createSender, readPage } from './assets.ts'

/** Nothing inline, and nothing of another origin; only icons may be data URLs, as in Swagger UI's style sheet. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const types: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml'
}

const directory = new URL('../../public/docs/', import.meta.url)
/** `npm run generate` makes it from the declarations of the operations. */
const interfaceFile = new URL('../openapi.json', directory)
const config = { isInternal: true } as const

interface Options {
  /** The path in front of those of the operations. */
  basePath: string
  /** Whether the page for people is served. */
  docs: boolean
}

const openapi: FastifyPluginAsync<Options> = async (app, { basePath, docs }) => {
  const text = await readFile(interfaceFile, 'utf8')
  const document = Buffer.from(text.replace('"url": "/"', `"url": "${basePath || '/'}"`))
  const compressed = gzipSync(document)
  app.get('/openapi.json', { config }, ({ headers }, reply) => {
    reply.type('application/json').header('vary', 'accept-encoding')
    // Not only browsers read it, and not every program decompresses.
    if (!/\bgzip\b(?!\s*;\s*q=0)/.test(`${headers['accept-encoding']}`)) return reply.send(document)
    return reply.header('content-encoding', 'gzip').send(compressed)
  })
  if (!docs) return
  const { page, assets } = await readPage(directory)
  const html = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy }
  for (const url of ['/', '/docs']) app.get(url, { config }, (_, reply) => reply.headers(html).send(page))
  const send = createSender()
  for (const [name, asset] of assets) {
    const type = types[extname(name)]
    app.get(`/docs/${name}`, { config }, (_, reply) => send(reply.header('content-type', type), asset))
  }
}

export default openapi
