/** Shrinks a schedule that fails. */
import type { Schedule } from './schedule.ts'
import { type Loaded, Simulation } from './simulation.ts'

/**
 * Leaves out orders and faults, first many and then single ones, as long as the rule that was broken first is still broken.
 * Calls `onRun` before each simulation.
 */
export async function shrink(schedule: Schedule, loaded: Loaded, onRun: () => void): Promise<Schedule> {
  const run = async (smaller: Schedule) => {
    onRun()
    return new Simulation(smaller, loaded).run()
  }
  const [rule] = (await run(schedule)).map(ruleOf)
  const fails = async (smaller: Schedule) => (await run(smaller)).map(ruleOf).includes(rule as string)
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

/** The beginning of a violation, before its details. */
const ruleOf = (violation: string) => violation.replace(/[:\d].*/s, '')
