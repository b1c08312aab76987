/** Node's own server over the service's own group commit: as little as a server in Node can do. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openGroupCommit } from './group-commit.ts'

const create = openGroupCommit()

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', async () => {
    const body = JSON.parse(Buffer.concat(chunks).toString())
    await create(body)
    const text = JSON.stringify({ name: body.name, tag: body.tag })
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text)
    })
    response.end(text)
  })
})

process.on('SIGTERM', () => process.exit(0))
server.listen(Number(process.env.PORT), process.env.HOST, () => {
  const { address, port } = server.address() as AddressInfo
  process.stdout.write(`listening at http://${address}:${port}\n`)
})
