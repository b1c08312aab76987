/** Runs a schedule of overlapping faults as one fault of a stack. */
import { setTimeout } from 'node:timers/promises'
import { createRandom } from '../../support/random.ts'
import { withMajority } from './report.ts'
import type { Fault, Form } from './run.ts'
import {
  describe,
  drawSchedule,
  type Entry,
  findOutages,
  hitsOf,
  type Interval,
  type Kind,
  seconds
} from './schedule.ts'
import { graceMs, type Stack } from './stack.ts'

/** What rounds are made of. */
export interface Overlap {
  stack: Pick<Stack, 'runs'>
  seed: number
  /** A round takes a minute at most, and everything is healed at its end. */
  minutes: number
  kinds: Kind[]
  forms: Pick<Form, 'isAvailable'>[]
  /** Returns when the stack has recovered from everything. */
  isWhole(): Promise<unknown>
}

/** Time as rounds see it. */
export interface Clock {
  now(): number
  sleep(ms: number): Promise<unknown>
}

const minuteMs = 60_000
const realClock: Clock = { now: () => performance.now(), sleep: setTimeout }

/** Draws the rounds, and prints them. */
export function createRounds(
  { stack, seed, minutes, kinds, forms, isWhole }: Overlap,
  clock = realClock,
  print = (text: string) => void process.stdout.write(`${text}\n`)
): Fault[] {
  const random = createRandom(seed)
  const areAvailable = (hits: string[]) => forms.every(({ isAvailable }) => isAvailable(hits))
  print(`seed ${seed}`)
  return Array.from({ length: Math.ceil(minutes) }, (_, index) => {
    // In half of the rounds nothing excuses a pause: all that is hit, taken together, leaves a majority.
    const isGentle = random.oneIn(2)
    const name = `seed ${seed}, round ${index + 1}${isGentle ? withMajority : ''}`
    const lengthMs = Math.min(1, minutes) * minuteMs
    const entries = drawSchedule(random, kinds, lengthMs, isGentle ? areAvailable : undefined)
    print([name, ...describe(entries)].join('\n'))
    let healed = 0
    let played: Awaited<ReturnType<typeof play>> = { struck: [], idle: [] }
    return {
      name,
      breaksClients: true,
      async strike() {
        await isWhole()
        played = await play(entries, stack, clock, print)
        healed = clock.now()
      },
      repair: isWhole,
      outages: ({ isAvailable }) => ({ outages: findOutages(played.struck, isAvailable), healed }),
      idle: () => played.idle
    }
  })
}

/**
 * Strikes and heals as the schedule says. Returns what was hit, from when until it works again, and which strikes did
 * nothing: a strike needs its containers to run from its start to its end.
 */
async function play(
  entries: Entry[],
  stack: Overlap['stack'],
  { now, sleep }: Clock,
  print: (text: string) => void
) {
  const began = now()
  const until = (at: number) => sleep(Math.max(0, began + at - now()))
  const struck: (Interval & { hits: string[] })[] = []
  const idle: string[] = []
  const excuse = ({ kind, target }: Entry, why: string) => {
    idle.push(`${seconds(now() - began)}, ${target} ${kind.name}: ${why}`)
    print(`nothing is done: ${idle.at(-1)}`)
  }

  /** Returns whether anything may have been hit. */
  async function strike(entry: Entry): Promise<boolean> {
    const { kind, target, tag } = entry
    const before = await stack.runs(kind.needs(target))
    if (before.includes(undefined)) {
      excuse(entry, 'it is down')
      return false
    }
    try {
      await kind.strike(target, tag)
    } catch (error) {
      const after = await stack.runs(kind.needs(target))
      const hasChanged = after.some((run, index) => run !== before[index])
      if (!hasChanged && !kind.refusal?.test((error as Error).message)) throw error
      excuse(entry, hasChanged ? 'it went down meanwhile' : 'it is refused')
      return hasChanged
    }
    return true
  }

  /** What cannot be healed while another fault holds it is healed at the end of the round. */
  async function heal({ kind, target, tag }: Entry) {
    const before = await stack.runs(kind.needs(target))
    await kind.heal?.(target, tag).catch(async (error) => {
      const after = await stack.runs(kind.needs(target))
      if (after.every((run, index) => run !== undefined && run === before[index])) throw error
      print(`not healed yet: ${target} ${kind.name}`)
    })
  }

  await Promise.all(
    entries.map(async (entry) => {
      await until(entry.from)
      const from = now()
      const isHit = await strike(entry)
      await until(entry.to)
      await heal(entry)
      if (isHit) struck.push({ hits: hitsOf(entry), from, to: now() + graceMs })
    })
  )
  for (const entry of entries) await heal(entry)
  return { struck, idle }
}
