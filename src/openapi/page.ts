/** The interface for machines, /openapi.json, and for people: Swagger UI, from this origin alone. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { FastifyPluginAsync } from 'fastify'
import { StartupFault } from '../failures/failure.ts'

/** Nothing inline, nothing evaluated, nothing from elsewhere; Swagger UI's style sheet has its icons in data URLs. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const types: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml'
}

/**
 * Reads the page in a directory, where `npm run prepare` has put Swagger UI, and the files that it refers to as `{name}`.
 * The name gets a version, which changes with the file. Rejects with a StartupFault if a file is missing.
 */
export async function readPage(directory: URL) {
  const template = await readFile(new URL('index.html', directory), 'utf8')
  const assets = new Map<string, { bytes: Buffer; version: string }>()
  for (const [, name = ''] of template.matchAll(reference)) {
    const bytes = await readFile(new URL(name, directory)).catch(() => {
      throw new StartupFault([`public/docs/${name} is missing: run npm run prepare`])
    })
    assets.set(name, { bytes, version: hash('sha256', bytes).slice(0, 16) })
  }
  const page = template.replace(reference, (_, name) => `${name}?v=${assets.get(name)?.version}`)
  return { page: Buffer.from(page), assets }
}

const reference = /\{(.+?)\}/g
const directory = new URL('../../public/docs/', import.meta.url)
/** Made by `npm run generate` from the declarations of the operations. */
const interfaceFile = new URL('../openapi.json', directory)
const config = { isInternal: true } as const

/** `basePath` is in front of the operations' paths, `docs` says whether the page for people is served. */
const openapi: FastifyPluginAsync<{ basePath: string; docs: boolean }> = async (app, { basePath, docs }) => {
  const text = await readFile(interfaceFile, 'utf8')
  const document = Buffer.from(text.replace('"url": "/"', `"url": "${basePath || '/'}"`))
  app.get('/openapi.json', { config }, (_, reply) => reply.type('application/json').send(document))
  if (!docs) return
  const { page, assets } = await readPage(directory)
  const html = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy }
  for (const url of ['/', '/docs']) app.get(url, { config }, (_, reply) => reply.headers(html).send(page))
  for (const [name, { bytes, version }] of assets) {
    app.get(`/docs/${name}`, { config }, ({ url }, reply) => {
      // Not for another version: while replicas are replaced, the page of one may request its files from another.
      if (url.endsWith(`?v=${version}`)) reply.header('cache-control', 'public, max-age=31536000, immutable')
      return reply.header('content-type', types[extname(name)]).send(bytes)
    })
  }
}

export default openapi
