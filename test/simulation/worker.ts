/** A thread that simulates seeds: it has a machine's time, chance and network of its own to replace. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Report, Task } from './explore.ts'
import { installProcesses } from './machine.ts'
import { drawSchedule } from './schedule.ts'
import { loadService } from './service.ts'
import { shrinkSchedule } from './shrink.ts'
import { Simulation } from './simulation.ts'

installProcesses()
const service = await loadService(workerData)
const port = parentPort as NonNullable<typeof parentPort>

port.on('message', async (task: Task) => {
  const report = (message: Report) => port.postMessage(message)
  if ('from' in task) {
    for (let seed = task.from; seed < task.to; seed++) {
      report({ begins: seed })
      const violations = await new Simulation(drawSchedule(seed), service).run()
      if (violations.some((violation) => task.breaks.test(violation))) return report({ seed, violations })
    }
    return report({})
  }
  const drawn = drawSchedule(task.seed)
  const begin = () => report({ begins: task.seed })
  const schedule = task.isShrunk ? await shrinkSchedule(drawn, service, begin) : drawn
  begin()
  const simulation = new Simulation(schedule, service, true)
  const violations = await simulation.run()
  report({ seed: task.seed, violations, schedule, trace: simulation.world.trace ?? [] })
})
