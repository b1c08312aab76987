/** The directory in which a benchmark keeps its databases and logs. */
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** File systems that keep nothing, by their numbers in statfs(2): tmpfs and ramfs. */
const volatile = [0x01021994, 0x858458f6]

/** Takes what must run when the benchmark ends. */
export type Defer = (end: () => Promise<unknown>) => void

/**
 * Runs a benchmark in a directory on a disk. At its end, and at SIGINT or SIGTERM, what it has deferred runs, the newest
 * first, and the directory is removed. Throws if the temporary directory is in memory.
 */
export async function withDirectory(
  run: (directory: string, defer: Defer) => Promise<void>
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-bench-'))
  const ends = [() => rm(directory, { recursive: true, force: true })]
  const end = async () => {
    for (;;) {
      const next = ends.pop()
      if (!next) return
      // The others must run, too.
      await next().catch((error) => process.stderr.write(`${error}\n`))
    }
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      process.stderr.write(`ended by ${signal}\n`)
      end().finally(() => process.exit(1))
    })
  try {
    const { type } = await statfs(directory)
    if (volatile.includes(type))
      throw new Error('the temporary directory is in memory: set TMPDIR to one on a disk')
    await run(directory, (added) => ends.push(async () => void (await added())))
  } finally {
    await end()
  }
}
