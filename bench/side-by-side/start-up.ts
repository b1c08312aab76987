/** How long a server takes from the start of its process to its first 200. */
import { makeBody } from '../plant.ts'
import { startServer } from '../server.ts'
import type { Peer } from './peers.ts'
import { post } from './post.ts'

/** Starts a server on a database, ends it again, and returns the time in ms; it is asked every 5 ms. */
export async function timeStartUp(
  { program }: Peer,
  databaseUrl: string,
  directory: string
): Promise<number> {
  const server = await startServer(program, databaseUrl, directory, { isReady: creates, everyMs: 5 })
  await server.kill()
  return server.startUpMs
}

async function creates(url: string): Promise<boolean> {
  const outcome = await post(url, makeBody('safe'))
  return 'status' in outcome && outcome.status === 200
}
