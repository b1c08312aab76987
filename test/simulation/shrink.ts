/** Shrinks a schedule that fails. */

import type { Order } from './clients.ts'
import type { Fault } from './faults.ts'
import type { Schedule } from './schedule.ts'
import { shrink } from './shrink-list.ts'
import { type Loaded, Simulation } from './simulation.ts'

/** Leaves out orders and faults as long as the rule that was broken first is still broken. Calls `onRun` before each simulation. */
export async function shrinkSchedule(
  schedule: Schedule,
  loaded: Loaded,
  onRun: () => void
): Promise<Schedule> {
  const keep = (items: readonly (Fault | Order)[]): Schedule => ({
    ...schedule,
    faults: schedule.faults.filter((fault) => items.includes(fault)),
    orders: schedule.orders.filter((order) => items.includes(order))
  })
  let rule: string | undefined
  const smallest = await shrink([...schedule.faults, ...schedule.orders], async (items) => {
    onRun()
    const broken = (await new Simulation(keep(items), loaded).run()).map(ruleOf)
    rule ??= broken[0]
    return rule !== undefined && broken.includes(rule)
  })
  return smallest ? keep(smallest) : schedule
}

/** The beginning of a violation, before its details. */
const ruleOf = (violation: string) => violation.replace(/[:\d].*/s, '')
