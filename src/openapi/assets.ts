/** The files of the page for people, in public/docs, where `npm run prepare` puts those of Swagger UI. Read once, and kept. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { StartupFault } from '../failures/startup-fault.ts'

/** A file to be sent. */
export interface Asset {
  readonly name: string
  /** The media type. */
  readonly type: string
  /** Changes with the bytes. */
  readonly hash: string
  readonly bytes: Buffer
  /** Returns the bytes compressed by gzip, which happens once, when they are first asked for. */
  gzipped(): Promise<Buffer>
}

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml'
}

const compress = promisify(gzip)

function toAsset(name: string, bytes: Buffer): Asset {
  let compressed: Promise<Buffer> | undefined
  return {
    name,
    type: types[extname(name)] as string,
    hash: createHash('sha256').update(bytes).digest('hex').slice(0, 16),
    bytes,
    gzipped: () => {
      compressed ??= compress(bytes)
      return compressed
    }
  }
}

/**
 * Reads the page in a directory, and the files that it refers to as `{name}`, which becomes the name with the hash.
 * Rejects with a StartupFault where a file was not prepared.
 */
export async function readPage(directory: URL): Promise<{ page: Asset; assets: Asset[] }> {
  const template = await readFile(new URL('index.html', directory), 'utf8')
  const names = [...template.matchAll(/\{(.+?)\}/g)].map(([, name]) => name as string)
  const assets = await Promise.all(
    names.map(async (name) => {
      const bytes = await readFile(new URL(name, directory)).catch(() => {
        throw new StartupFault([`public/docs/${name} is missing: run npm run prepare`])
      })
      return toAsset(name, bytes)
    })
  )
  const versions = new Map(assets.map(({ name, hash }) => [name, `${name}?v=${hash}`]))
  const html = template.replace(/\{(.+?)\}/g, (_, name) => versions.get(name) as string)
  return { page: toAsset('index.html', Buffer.from(html)), assets }
}
