/** A directory that one process at a time may use: the first holds a socket of the directory's name until it ends. */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Returns whether the directory is this process's own, until it ends. */
export async function claim(directory: string): Promise<boolean> {
  // Not in the directory: a socket's path has at most 107 bytes, and some file systems have no sockets.
  const path = join(tmpdir(), `plant-store-${hash('sha256', directory).slice(0, 16)}`)
  if (await isHeld(path)) return false
  // What a killed process has left.
  rmSync(path, { force: true })
  const server = createServer((socket) => socket.destroy())
    .listen(path)
    .unref()
  return once(server, 'listening').then(
    () => {
      process.once('exit', () => rmSync(path, { force: true }))
      return true
    },
    () => false
  )
}

async function isHeld(path: string): Promise<boolean> {
  const socket = connect(path)
  const [error] = await once(socket, 'connect').catch((error) => [error])
  socket.destroy()
  return error === undefined || !['ENOENT', 'ECONNREFUSED'].includes(error.code)
}
