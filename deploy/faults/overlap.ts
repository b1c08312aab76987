/** Runs a schedule of overlapping faults as one fault of a stack. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../dev/random.ts'
import { graceMs } from './report.ts'
import type { Fault } from './run.ts'
import { describe, drawSchedule, type Entry, findOutages, hitsOf, type Kind } from './schedule.ts'

/** What rounds are made of. */
export interface Overlap {
  seed: number
  /** A round takes a minute at most, and everything is healed at its end. */
  minutes: number
  kinds: Kind[]
  /** Whether creates must succeed while these are hit, or were in the last half minute. */
  isAvailable(hits: string[]): boolean
  /** Returns when the stack has recovered from everything. */
  isWhole(): Promise<unknown>
}

const minuteMs = 60_000

/** Draws the rounds, and prints them. */
export function createRounds({ seed, minutes, kinds, isAvailable, isWhole }: Overlap): Fault[] {
  const random = createRandom(seed)
  process.stdout.write(`seed ${seed}\n`)
  return Array.from({ length: Math.ceil(minutes) }, (_, index) => {
    // In half of the rounds nothing excuses a pause: what is hit, all of it together, leaves a majority.
    const isGentle = random.oneIn(2)
    const name = `seed ${seed}, round ${index + 1}${isGentle ? ', a majority is left' : ''}`
    const lengthMs = Math.min(1, minutes) * minuteMs
    const entries = drawSchedule(random, kinds, lengthMs, isGentle ? isAvailable : undefined)
    process.stdout.write(`${name}\n${describe(entries).join('\n')}\n`)
    let healed = 0
    let struck: Awaited<ReturnType<typeof play>> = []
    return {
      name,
      breaksClients: true,
      async strike() {
        await isWhole()
        struck = await play(entries)
        healed = performance.now()
      },
      mend: isWhole,
      outages: () => ({ outages: findOutages(struck, isAvailable), healed })
    }
  })
}

/** Strikes and heals as the schedule says; gives what was hit when, until it is of use again. */
async function play(entries: Entry[]) {
  const began = performance.now()
  const until = (at: number) => sleep(Math.max(0, began + at - performance.now()))
  const struck = await Promise.all(
    entries.map(async (entry) => {
      const { tag, kind, target, from, to } = entry
      await until(from)
      const at = performance.now()
      await attempt(`${target} ${kind.name}`, () => kind.strike(target, tag))
      await until(to)
      await attempt(`${target} is healed`, async () => kind.heal?.(target, tag))
      return { hits: hitsOf(entry), from: at, to: performance.now() + graceMs }
    })
  )
  // What could not be healed while another fault held it can be now.
  for (const { tag, kind, target } of entries)
    await attempt(`${target} is healed`, async () => kind.heal?.(target, tag))
  return struck
}

/** The exit code of a command that was ended by SIGKILL, as all are in a container that is. */
const killed = 137
const isElsewhere = /not running|non running|is (not )?paused|is restarting|unable to freeze|switchover/i

/** A fault that meets a container which another one has stopped, or which the kernel cannot freeze, is none. */
const attempt = (what: string, action: () => Promise<unknown>) =>
  action().catch((error) => {
    if (!isElsewhere.test(error.message) && error.code !== killed) throw error
    process.stdout.write(
      `not now: ${what}: ${/^.*error.*$/im.exec(error.stderr ?? '')?.[0] ?? error.message}\n`
    )
  })
