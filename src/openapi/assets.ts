/** The files of the page for people: reading them, and sending them within a limit of memory. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { StartupFault } from '../failures/startup-fault.ts'

/** A file that the page loads. */
interface Asset {
  /** The file as it is sent: compressed. */
  readonly bytes: Buffer
  /** Changes with the file. */
  readonly version: string
}

/** How the page refers to a file: `{name}`. */
const reference = /\{(.+?)\}/g

/**
 * Reads the page in a directory, where `npm run prepare` has put Swagger UI, and the files that it refers to. In the page,
 * each name gets a version, which changes with the file. Rejects with a StartupFault if a file is missing.
 */
export async function readPage(directory: URL) {
  const template = await readFile(new URL('index.html', directory), 'utf8')
  const assets = new Map<string, Asset>()
  for (const [, name = ''] of template.matchAll(reference)) {
    const read = (suffix: string) => readFile(new URL(name + suffix, directory)).catch(() => undefined)
    // The page's own files are plain; `npm run prepare` has compressed those of Swagger UI.
    const plain = await read('')
    const bytes = plain ? gzipSync(plain) : await read('.gz')
    if (!bytes) throw new StartupFault([`public/docs/${name} is missing: run npm run prepare`])
    assets.set(name, { bytes, version: hash('sha256', bytes).slice(0, 16) })
  }
  const page = template.replace(reference, (_, name) => `${name}?v=${assets.get(name)?.version}`)
  return { page: Buffer.from(page), assets }
}

/** How many bytes of assets may wait in the memory of the process and of the kernel. */
const waitingBytesLimit = 8 * 2 ** 20
/** How long the bytes of a finished response still count: the kernel may hold all of them for the client. */
export const lingerMs = 100
/** A response that takes longer is ended when another one needs its room. */
export const slowMs = 5_000
/** RateLimited, and not Overloaded: that warns operators of refused creates. */
const tooManyFiles = { message: 'too many files are being sent' }

/**
 * Returns a function that sends an asset. It throws a Failure where all assets would take more than `waitingBytesLimit`, and for a
 * second asset on a connection.
 */
export function createSender() {
  let waitingBytes = 0
  /** The connections with an asset, and when it was sent, the oldest first. */
  const sentAt = new Map<Socket, number>()
  return (reply: FastifyReply, { bytes, version }: Asset) => {
    const { method, url, socket } = reply.request
    if (method !== 'HEAD') {
      const hasRoom = waitingBytes + bytes.length <= waitingBytesLimit
      const [[oldest, since] = []] = sentAt
      if (!hasRoom && since !== undefined && performance.now() - since > slowMs) oldest?.destroy()
      if (!hasRoom || sentAt.has(socket)) throw new Failure('RateLimited', tooManyFiles)
      waitingBytes += bytes.length
      sentAt.set(socket, performance.now())
      reply.raw.once('close', () => {
        sentAt.delete(socket)
        setTimeout(() => {
          waitingBytes -= bytes.length
        }, lingerMs).unref()
      })
    }
    // Another version must not be cached under this name: during an update, one replica's page may load another's files.
    if (url.endsWith(`?v=${version}`)) reply.header('cache-control', 'public, max-age=31536000, immutable')
    // Compressed, whatever the client accepts: every browser decompresses, and plain files would take four times the memory.
    return reply.header('content-encoding', 'gzip').send(bytes)
  }
}
