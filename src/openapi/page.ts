/** The interface for machines, /openapi.json, and for people: Swagger UI, from this origin alone. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import { Failure, StartupFault } from '../failures/failure.ts'

/** Nothing inline, nothing evaluated, nothing from elsewhere; Swagger UI's style sheet has its icons in data URLs. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const types: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml'
}

/** A file that the page loads, as it is sent: compressed. */
interface Asset {
  readonly bytes: Buffer
  readonly version: string
}

/**
 * Reads the page in a directory, where `npm run prepare` has put Swagger UI, and the files that it refers to as `{name}`.
 * The name gets a version, which changes with the file. Rejects with a StartupFault if a file is missing.
 */
export async function readPage(directory: URL) {
  const template = await readFile(new URL('index.html', directory), 'utf8')
  const assets = new Map<string, Asset>()
  for (const [, name = ''] of template.matchAll(reference)) {
    const read = (suffix: string) => readFile(new URL(name + suffix, directory)).catch(() => undefined)
    const small = await read('')
    const bytes = small ? gzipSync(small) : await read('.gz')
    if (!bytes) throw new StartupFault([`public/docs/${name} is missing: run npm run prepare`])
    assets.set(name, { bytes, version: hash('sha256', bytes).slice(0, 16) })
  }
  const page = template.replace(reference, (_, name) => `${name}?v=${assets.get(name)?.version}`)
  return { page: Buffer.from(page), assets }
}

/** How many bytes of assets may wait for their clients. */
const mostBytes = 8 * 2 ** 20
/** So long the bytes of one that the kernel has accepted count on: a fast one, such as loopback's, accepts any at once. */
export const refillMs = 100
/** One that takes longer ends where another has no room. */
export const slowMs = 5_000
/** Not Overloaded, of which operators are warned: creates are not refused. */
const tooManyFiles = { message: 'too many files are being sent' }

/** Returns a function that sends an asset. Beyond `mostBytes`, and for a second one of a connection, it throws a Failure. */
export function createSender() {
  let waiting = 0
  /** The connections with an asset, and since when. */
  const sockets = new Map<Socket, number>()
  return (reply: FastifyReply, { bytes, version }: Asset) => {
    const { method, url, socket } = reply.request
    if (method !== 'HEAD') {
      const hasRoom = waiting + bytes.length <= mostBytes
      const [[oldest, since] = []] = sockets
      if (!hasRoom && since !== undefined && performance.now() - since > slowMs) oldest?.destroy()
      if (!hasRoom || sockets.has(socket)) throw new Failure('RateLimited', tooManyFiles)
      waiting += bytes.length
      sockets.set(socket, performance.now())
      reply.raw.once('close', () => {
        sockets.delete(socket)
        setTimeout(() => {
          waiting -= bytes.length
        }, refillMs).unref()
      })
    }
    // Not for another version: while replicas are replaced, the page of one may request its files from another.
    if (url.endsWith(`?v=${version}`)) reply.header('cache-control', 'public, max-age=31536000, immutable')
    // Whatever it accepts: every browser does, and without compression a client could make the kernel hold four times as much.
    return reply.header('content-encoding', 'gzip').send(bytes)
  }
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
  const compressed = gzipSync(document)
  app.get('/openapi.json', { config }, ({ headers }, reply) => {
    reply.type('application/json').header('vary', 'accept-encoding')
    // Other programs than browsers read it, too: not all of them decompress.
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
