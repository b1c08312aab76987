/** The cancel request, byte for byte. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { cancelStatement } from '../../src/database/cancel.ts'

/** Listens like PostgreSQL; returns all that the first client sends. */
async function listen(t: Test, where: { host: string; port: number } | { path: string }) {
  const server = createServer()
  server.listen(where)
  await once(server, 'listening')
  t.teardown(() => server.close())
  const sent = (async () => {
    const [socket] = await once(server, 'connection')
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    await once(socket, 'end')
    socket.end()
    return Buffer.concat(chunks).toString('hex')
  })()
  return { sent, address: server.address() }
}

const key = { processID: 0x01020304, secretKey: -2 }
const request = '00000010' + '04d2162e' + '01020304' + 'fffffffe'

t.test('over TCP', async (t) => {
  const { sent, address } = await listen(t, { host: '127.0.0.1', port: 0 })
  cancelStatement({ ...key, host: '127.0.0.1', port: (address as { port: number }).port } as never)
  t.equal(await sent, request)
})

t.test('over a Unix socket', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const { sent } = await listen(t, { path: join(directory, '.s.PGSQL.5432') })
  cancelStatement({ ...key, host: directory, port: 5432 } as never)
  t.equal(await sent, request)
})

t.test('a cancel request that cannot be sent fails silently', async (t) => {
  const opened = new Promise<Socket>((resolve) => {
    const take = (message: unknown) => resolve((message as { socket: Socket }).socket)
    subscribe('net.client.socket', take)
    t.teardown(() => unsubscribe('net.client.socket', take))
  })
  cancelStatement({ ...key, host: '/nowhere', port: 5432 } as never)
  const socket = await opened
  t.equal(await new Promise((resolve) => socket.once('close', resolve)), true, 'it has failed')
})
