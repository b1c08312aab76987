/** The directory in which `npm run dev` keeps its database and its token, and who uses it. */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export const root = join(import.meta.dirname, '..')

/** The name of the development database. */
export const database = 'plants'

/** Returns the directory that a script's argument names; .data by default. */
export const directoryOf = (argument?: string) => resolve(argument ?? join(root, '.data'))

/** Returns the path of the file with the token of `npm run dev`. */
export const tokenFile = (directory: string) => join(directory, 'token')

/** Returns whether this process may use the directory, alone and until it ends: it holds a socket of the directory's name. */
export async function claim(directory: string): Promise<boolean> {
  // The socket is not in the directory: its path has at most 107 bytes, and some file systems have no sockets.
  const path = join(tmpdir(), `plant-store-${hash('sha256', directory).slice(0, 16)}`)
  const socket = connect(path)
  const isHeld = await once(socket, 'connect').then(
    () => true,
    () => false
  )
  socket.destroy()
  if (isHeld) return false
  // A killed process has left its socket behind.
  await rm(path, { force: true })
  createServer((socket) => socket.destroy())
    .listen(path)
    .unref()
  return true
}
