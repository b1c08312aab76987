/** A registry of images on this machine, from which Docker can pull one small image by the tag 1. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { docker } from '../../support/docker.ts'

const type = 'application/vnd.docker.distribution.manifest.v2+json'
const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** Starts it until teardown, without an image. */
export async function startRegistry(t: Test) {
  const blobs = new Map<string, Buffer>()
  const server = createServer(({ url = '', method }, response) => {
    const [name = ''] = /[^/]*$/.exec(url) ?? []
    const bytes = url === '/v2/' ? Buffer.from('{}') : blobs.get(name)
    if (!bytes) return response.writeHead(404).end()
    const headers = { 'content-length': bytes.length, 'docker-content-digest': digestOf(bytes) }
    response.writeHead(200, url.includes('/manifests/') ? { ...headers, 'content-type': type } : headers)
    response.end(method === 'HEAD' ? undefined : bytes)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = async () => {
    server.closeAllConnections()
    server.close()
  }
  t.teardown(async () => {
    await close()
    const references = await docker(['image', 'ls', '--quiet', `${host}/plant-store`])
    await docker(['image', 'rm', '--force', ...new Set(references.split('\n').filter(Boolean))])
  })
  const add = (bytes: Buffer) => {
    blobs.set(digestOf(bytes), bytes)
    return { size: bytes.length, digest: digestOf(bytes) }
  }
  return {
    host,
    close,
    /** Lets the tag name an image with this label, and returns its digest. */
    async publish(label: string) {
      const layer = Buffer.alloc(1024) // an empty archive
      const config = Buffer.from(
        JSON.stringify({
          architecture: process.arch === 'x64' ? 'amd64' : process.arch,
          os: 'linux',
          config: { Labels: { label } },
          rootfs: { type: 'layers', diff_ids: [digestOf(layer)] }
        })
      )
      const manifest = {
        schemaVersion: 2,
        mediaType: type,
        config: { mediaType: 'application/vnd.docker.container.image.v1+json', ...add(config) },
        layers: [{ mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip', ...add(layer) }]
      }
      const bytes = Buffer.from(JSON.stringify(manifest))
      blobs.set('1', bytes)
      return add(bytes).digest
    }
  }
}
