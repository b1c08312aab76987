/** Loaded into a measured process: reports to its parent, on request, what it holds after a garbage collection. */
import { setImmediate as turn } from 'node:timers/promises'

/** What a measured process reports. */
export interface Holdings {
  /** Of the heap and of what it refers to outside. */
  bytes: number
  /** What of these is outside of the heap, such as buffers. */
  external: number
  /** How many there are of each kind that keeps the event loop alive, such as sockets and timers. */
  resources: Record<string, number>
}

/** Two collections in a row that differ by less have found all that there is to find. */
const noiseBytes = 16_384
const mostCollections = 12

process.on('message', async () => {
  let held = Number.POSITIVE_INFINITY
  let external = 0
  for (let count = 0; count < mostCollections; count++) {
    globalThis.gc?.()
    // What a finalizer releases is gone a turn later.
    await turn()
    const usage = process.memoryUsage()
    const before = held
    external = usage.external
    held = usage.heapUsed + external
    if (before - held < noiseBytes) break
  }
  const resources: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  process.send?.({ bytes: held, external, resources } satisfies Holdings)
})
// A test that is killed leaves no process behind.
process.on('disconnect', () => process.exit(1))
// Only the server keeps the process alive.
process.channel?.unref()
