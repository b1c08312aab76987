/** How slow this machine is now, so that limits can allow for it. */
import { createHash } from 'node:crypto'
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How long the work below takes on a machine of 2025 that has little else to do, in ms. */
const usualMs = 16
const most = 20

let measured: number | undefined

/** Returns a limit in ms that is `ms` on a usual machine and up to 20 times that on a slow one; measured once per process. */
export function scaled(ms: number): number {
  measured ??= Math.min(most, Math.max(1, measureMs() / usualMs))
  return Math.ceil(ms * measured)
}

/** The median of three: one moment in which others commit, too, is not the machine's speed. */
function measureMs(): number {
  const directory = mkdtempSync(join(tmpdir(), 'plant-store-'))
  const file = openSync(join(directory, 'file'), 'w')
  const times = [1, 2, 3].map(() => work(file))
  closeSync(file)
  rmSync(directory, { recursive: true })
  return times.sort((a, b) => a - b)[1] as number
}

/** Computes and commits, which tests mostly wait for, and returns the time that it took. */
function work(file: number): number {
  const block = Buffer.alloc(2 ** 20)
  const began = performance.now()
  const digest = createHash('sha256')
  for (let count = 0; count < 21; count++) digest.update(block)
  for (let count = 0; count < 5; count++) {
    writeSync(file, block, 0, 8_192)
    fsyncSync(file)
  }
  return performance.now() - began
}
