/** Schedules of overlapping faults, drawn from a seed. */
import type { Random } from '../../support/random.ts'

/** A fault that a schedule can draw. */
export interface Kind {
  /** Completes the sentence "the target …". */
  name: string
  /** What it can hit, such as services. */
  targets: string[]
  /** Faults of one group never overlap on one target. */
  group: string
  /** How long it may last, in seconds; an event that ends by itself has 0. */
  longest: number
  /** The containers that it needs to run, as the engine knows them: without one of them a strike does nothing. */
  needs(target: string): string[]
  /** Matches the error of a stack that runs but refuses a strike; the strike then does nothing, too. */
  refusal?: RegExp
  strike(target: string, tag: string): Promise<unknown>
  /** Ends it; called twice, and even if the fault is gone already. */
  heal?(target: string, tag: string): Promise<unknown>
  /** What it keeps from working, in the words of the stack's `isAvailable`; by default its target. */
  hits?(target: string): string[]
}

/** A fault of a schedule: times are ms from the schedule's start. */
export interface Entry {
  /** Distinguishes it from the others. */
  tag: string
  kind: Kind
  target: string
  from: number
  to: number
}

const mostAtOnce = 3
/** Seconds from the start of a fault to the start of the next. */
const longestGap = 8

/** How long a part rests after a fault, in ms. If it is hit before it has recovered, its outage can exceed the promise. */
const restMs = 15_000

/** What a fault keeps from working. */
export const hitsOf = ({ kind, target }: Pick<Entry, 'kind' | 'target'>) => kind.hits?.(target) ?? [target]

/** Whether two have a part in common: a link, such as `node1-node3`, belongs to both of its ends. */
const haveInCommon = (some: Entry, other: Entry) =>
  hitsOf(some).some((hit) => hitsOf(other).some((each) => hit.includes(each) || each.includes(hit)))

/**
 * Draws faults that begin within a time and end with it; the same draws make the same ones. With `isAvailable` the stack
 * can serve all the time: all that they hit, together, leaves it available, and a part that was hit has time to recover.
 */
export function drawSchedule(
  random: Random,
  kinds: Kind[],
  lengthMs: number,
  isAvailable?: (hits: string[]) => boolean
): Entry[] {
  const entries: Entry[] = []
  for (let at = 0; at < lengthMs; at += random.integer(longestGap * 1_000)) {
    const kind = random.pick(kinds)
    const target = random.pick(kind.targets)
    const to = Math.min(lengthMs, at + (kind.longest && 1_000 + random.integer(kind.longest * 1_000)))
    const active = entries.filter((other) => other.to > at)
    const isTaken = active.some((other) => other.target === target && other.kind.group === kind.group)
    const entry = { tag: `fault${entries.length + 1}`, kind, target, from: at, to }
    const rests = entries.filter((other) => other.to <= at && at < other.to + restMs)
    const isAllowed =
      !isAvailable ||
      (isAvailable([...entries, entry].flatMap(hitsOf)) && !rests.some((other) => haveInCommon(other, entry)))
    if (!isTaken && active.length < mostAtOnce && isAllowed) entries.push(entry)
  }
  return entries
}

/** Writes a schedule as one line for each fault. */
export const describe = (entries: Entry[]): string[] =>
  entries.map(({ kind, target, from, to }) => {
    const lasting = to > from ? ` for ${seconds(to - from)}` : ''
    return `${seconds(from).padStart(8)}  ${target} ${kind.name}${lasting}`
  })

/** Writes a time. */
export const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

/** A time, in ms. */
export interface Interval {
  from: number
  to: number
}

/** Returns the intervals in which something is hit so that the stack need not be available, in their order. */
export function findOutages(
  hits: (Interval & { hits: string[] })[],
  isAvailable: (hits: string[]) => boolean
): Interval[] {
  const times = [...new Set(hits.flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b)
  const outages: Interval[] = []
  for (const [index, from] of times.entries()) {
    const to = times[index + 1]
    const active = hits.filter((hit) => hit.from <= from && hit.to > from).flatMap((hit) => hit.hits)
    if (to === undefined || isAvailable(active)) continue
    const last = outages.at(-1)
    if (last?.to === from) last.to = to
    else outages.push({ from, to })
  }
  return outages
}
