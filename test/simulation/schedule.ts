/** What a simulation begins with: its services, the orders of its clients and its faults, all drawn from a seed. */
import { createRandom } from '../../dev/random.ts'
import type { Order } from './clients.ts'
import { drawFaults, type Fault } from './faults.ts'
import type { Settings } from './service.ts'
import { badName } from './statement.ts'

/** What is drawn from a seed, and can be made smaller while it still fails. */
export interface Schedule {
  readonly seed: number
  readonly settings: Settings
  readonly services: number
  readonly orders: readonly Order[]
  readonly faults: readonly Fault[]
  /** When all faults end. */
  readonly healMs: number
}

/** How long the faults and the orders last at the most. */
const loadMs = 12_000
/** Draws a schedule. */
export function drawSchedule(seed: number): Schedule {
  const random = createRandom(seed)
  const services = random.pick([1, 2, 2, 2, 3])
  const settings = {
    lanes: random.pick([1, 2, 3]),
    batchRows: random.pick([2, 4, 256]),
    deadlineMs: random.pick([500, 3000, 3000, 10_000])
  }
  const ids = 1 + random.integer(8)
  const orders: Order[] = []
  for (let burst = random.integer(8); burst >= 0; burst--) {
    const at = random.integer(random.pick([100, 3000, loadMs]))
    for (let more = 1 + random.integer(12); more > 0; more--) {
      // Rivals at the same time, and for what earlier ones have left.
      const id = `${1 + random.pick([0, 3 * burst]) + random.integer(ids)}`
      const isKeyed = random.oneIn(2)
      orders.push({
        at: at + random.integer(random.pick([1, 1, 20])),
        service: random.integer(services),
        id,
        name: random.oneIn(25) ? badName : random.pick(['fern', 'fern', 'moss']),
        ...(random.oneIn(3) ? { tag: 'shade' } : {}),
        ...(isKeyed ? { key: `${random.integer(random.pick([1, 1000]))}` } : {}),
        tries: random.pick([1, 2, 6])
      })
    }
  }
  const healMs = 100 + random.integer(random.pick([2000, loadMs, loadMs]))
  return { seed, settings, services, orders, faults: drawFaults(random), healMs }
}
