/** Makes a schedule smaller that fails. */
import type { Schedule } from './schedule.ts'
import { type CreateService, Simulation } from './simulation.ts'

/** Leaves out orders and faults, first many and then single ones, as long as a rule is still broken. */
export async function shrink(schedule: Schedule, createService: CreateService): Promise<Schedule> {
  const fails = async (smaller: Schedule) => (await new Simulation(smaller, createService).run()).length > 0
  let smallest = schedule
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (const part of ['faults', 'orders'] as const) {
      for (let size = smallest[part].length; size >= 1; size = Math.floor(size / 2)) {
        for (let start = 0; start < smallest[part].length; ) {
          const candidate = { ...smallest, [part]: smallest[part].toSpliced(start, size) }
          if (await fails(candidate)) {
            smallest = candidate
            isSmaller = true
          } else start += size
        }
      }
    }
  }
  return smallest
}
