/** What a simulation begins with: its services, the orders of its clients and its faults, all drawn from a seed. */
import { optionalFields, sampleOf } from '../support/plants.ts'
import { createRandom, type Random } from '../support/random.ts'
import type { Order } from './clients.ts'
import type { Speed } from './connection.ts'
import { drawFaults, type Fault } from './faults.ts'
import { type CauseName, causeOf, causes, nameOf } from './rows.ts'
import type { Settings } from './service.ts'

/** What is drawn from a seed, and can be made smaller while it still fails. */
export interface Schedule {
  readonly seed: number
  readonly settings: Settings
  readonly services: number
  readonly orders: readonly Order[]
  readonly faults: readonly Fault[]
  /** What only some databases do. */
  readonly engine: { readonly reportsRole: boolean; readonly commitMs?: number }
  /** Ids that an outsider holds until all faults end. */
  readonly locked: readonly string[]
  /** Good creates are next to a crowd of bad ones, and nothing else is wrong. */
  readonly isCrowded: boolean
  /** How fast a connection is. */
  readonly bytesPerMs: Speed
  /** When all faults end. */
  readonly healMs: number
}

/** How long the faults and the orders last at most. */
const loadMs = 12_000
/** Ids are these and those after them: int64 has more digits than a number of JavaScript. */
const firstIds = [1n, 1n, 1n, -4n, 2n ** 53n - 4n, 2n ** 63n - 200_000n, -(2n ** 63n)]
/** A plant that is large for a service that gets it back. */
const bigName = `big.${'x'.repeat(2_000)}`
const fastBytesPerMs = 100_000
/** A large row takes longer than any statement may. */
const slowBytesPerMs = 100
/** The write ids of a batch come back in time, the contents of its rows do not. */
const slowBackBytesPerMs = 40

/** Which sizes are drawn. */
interface Sizes {
  readonly isLargeDrawn: boolean
  readonly isBigDrawn: boolean
}

/** The name of a plant next to a crowd. */
export const innocent = 'innocent'

/** The causes of which there may be a crowd: their clients come again and again. */
const crowds: readonly CauseName[] = [
  'breaks a constraint',
  'has an internal error',
  'is denied',
  'fails to serialize',
  'fills the disk',
  'loses a remote connection',
  'ends its session',
  'never ends'
]

/** Draws a crowd of bad clients of a service, and some good ones: each sends one plant after the other. */
function drawCrowded(seed: number, random: Random): Schedule {
  const most = random.pick([8, 64, 255])
  const isLocked = random.oneIn(4)
  const cause = random.pick(crowds)
  const lanes = random.pick([2, 3])
  // Each that never ends takes a slice of a suspects' lane, and its caller's good ones are behind it.
  const bad = cause === 'never ends' && !isLocked ? Math.min(32 * (lanes - 1), most) : most
  const caller = random.pick(['a', 'b'])
  const client = (number: number, name: string, caller: string, step: number, more: number) => ({
    at: random.integer(20),
    service: 0,
    id: `${number}`,
    name,
    caller,
    tries: 1,
    step,
    more
  })
  const orders = [
    ...Array.from({ length: bad }, (_, number) =>
      client(number, isLocked ? 'fern' : cause, 'a', isLocked ? 0 : 1_000, 2)
    ),
    ...Array.from({ length: random.pick([1, 4, 16]) }, (_, number) =>
      client(100_000 + number, innocent, caller, 1_000, 20)
    )
  ]
  return {
    seed,
    settings: { ...wide, lanes, batchRows: 256, deadlineMs: 10_000, hasHosts: false },
    services: 1,
    orders,
    faults: [],
    engine: { reportsRole: true, commitMs: random.pick([0.2, 10]) },
    bytesPerMs: { toHost: fastBytesPerMs, toClient: fastBytesPerMs },
    locked: isLocked ? orders.slice(0, bad).map(({ id }) => id) : [],
    isCrowded: true,
    healMs: 12_000
  }
}

const wide = { batchBytes: 2 ** 20, queueRows: 2 ** 14, queueBytes: 2 ** 26 }

/** Draws a schedule. */
export function drawSchedule(seed: number): Schedule {
  const random = createRandom(seed)
  if (random.oneIn(40)) return drawCrowded(seed, random)
  const services = random.pick([1, 2, 2, 2, 3])
  const hasHosts = random.oneIn(6)
  const isSlow = random.oneIn(12)
  const isSlowBack = random.oneIn(12)
  const isNarrow = random.oneIn(6)
  const limits = { batchBytes: 300, queueRows: 8, queueBytes: 2 ** 18 }
  const settings = {
    lanes: random.pick([1, 2, 3]),
    batchRows: random.pick([2, 4, 256]),
    deadlineMs: random.pick(isSlow || isSlowBack ? [3000] : [500, 3000, 3000, 10_000]),
    ...(isNarrow ? limits : wide),
    // A batch must be sent within a part of its limit.
    ...(isSlow ? { batchBytes: 2 ** 14 } : {}),
    hasHosts
  }
  const engine = { reportsRole: !random.oneIn(3) }
  // Either much goes wrong, or one row does.
  const isOneRow = random.oneIn(3)
  const size = { isLargeDrawn: isSlow, isBigDrawn: isSlowBack }
  const orders = isOneRow ? drawCrowd(random, services, size) : drawRivals(random, services, size)
  const healMs = 100 + random.integer(random.pick([2000, loadMs, loadMs]))
  const drawn = drawFaults(random)
  const faults = isOneRow ? [] : drawn
  const bytesPerMs = {
    toHost: isSlow ? slowBytesPerMs : fastBytesPerMs,
    toClient: isSlowBack ? slowBackBytesPerMs : fastBytesPerMs
  }
  return {
    seed,
    settings,
    services,
    orders,
    faults,
    engine,
    bytesPerMs,
    locked: [],
    isCrowded: false,
    healMs
  }
}

/** Draws a plant that is a cause of failures; a large one only over a slow link. */
function drawCause(random: Random, { isLargeDrawn }: Sizes): string {
  const names = Object.keys(causes) as CauseName[]
  const cause = random.pick(names)
  return cause === 'is larger than the link' && !isLargeDrawn ? 'fern' : nameOf(cause)
}

const drawOptional = (random: Random) =>
  Object.fromEntries(
    optionalFields.flatMap((field) =>
      random.oneIn(3) ? [[field, sampleOf(field, random.pick([1, 1, 0]))]] : []
    )
  )

/** Draws clients that want the same ids at the same time, and ids that earlier ones have taken. */
function drawRivals(random: Random, services: number, sizes: Sizes): Order[] {
  const first = random.pick(firstIds)
  const ids = 1 + random.integer(8)
  const orders: Order[] = []
  for (let burst = random.integer(8); burst >= 0; burst--) {
    const at = random.integer(random.pick([100, 3000, loadMs]))
    for (let more = 1 + random.integer(12); more > 0; more--) {
      const id = `${first + BigInt(random.pick([0, 3 * burst]) + random.integer(ids))}`
      const isKeyed = random.oneIn(2)
      const good = random.pick(['fern', 'fern', 'moss', sizes.isBigDrawn ? bigName : 'moss'])
      orders.push({
        at: at + random.integer(random.pick([1, 1, 20])),
        service: random.integer(services),
        id,
        name: random.oneIn(25) ? drawCause(random, sizes) : good,
        ...drawOptional(random),
        caller: random.pick(['a', 'a', 'b']),
        ...(isKeyed ? { key: `${random.integer(random.pick([1, 1000]))}` } : {}),
        tries: random.pick([1, 2, 6])
      })
    }
  }
  return orders
}

/** Draws many clients that want ids of their own, or taken ones, and one whose plant is a cause of failures. */
function drawCrowd(random: Random, services: number, sizes: Sizes): Order[] {
  const first = random.pick(firstIds)
  const orders: Order[] = []
  const order = (at: number, id: number, name: string, tries: number) => {
    const isKeyed = random.oneIn(4)
    orders.push({
      at,
      service: random.integer(services),
      id: `${first + BigInt(id)}`,
      name,
      caller: 'a',
      ...(isKeyed ? { key: `${random.integer(1000)}` } : {}),
      tries
    })
  }
  const cause = drawCause(random, sizes)
  const badAt = random.integer(random.pick([30, 1000, 3000]))
  for (let tries = random.pick([1, 1, 3]); tries > 0; tries--)
    order(badAt + random.integer(random.pick([1, 500])), 0, cause, random.pick([1, 3]))
  if (causeOf(cause)?.isDamaged)
    for (let more = random.integer(4); more > 0; more--)
      order(badAt + 100 + random.integer(500), 0, 'fern', 1)
  const crowd = random.pick([10, 30, 60])
  const isTaken = random.oneIn(3)
  const bursts = random.integer(4)
  for (let burst = bursts; burst >= 0; burst--) {
    const isFirst = burst === bursts
    const at = random.integer(random.pick([30, 1000])) + (isFirst ? 0 : 2000)
    for (let more = crowd; more > 0; more--) {
      const id = 1 + random.integer(isTaken || random.oneIn(2) ? crowd : 100_000)
      const name = isFirst && isTaken && sizes.isBigDrawn ? bigName : 'fern'
      order(at + random.integer(random.pick([1, 20, 300])), id, name, 1)
    }
  }
  return orders
}
