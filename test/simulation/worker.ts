/** A thread that simulates seeds: it has a machine's time, chance and network of its own to replace. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Asked, Told } from './explore.ts'
import { tellLie } from './lies.ts'
import { installProcesses } from './machine.ts'
import { drawSchedule } from './schedule.ts'
import { loadService } from './service.ts'
import { shrink } from './shrink.ts'
import { Simulation } from './simulation.ts'

installProcesses()
const service = await loadService(workerData)
const port = parentPort as NonNullable<typeof parentPort>

port.on('message', async (asked: Asked) => {
  const tell = (told: Told) => port.postMessage(told)
  const loaded = tellLie(service, asked.lie)
  if ('from' in asked) {
    for (let seed = asked.from; seed < asked.to; seed++) {
      const violations = await new Simulation(drawSchedule(seed), loaded).run()
      if (violations.some((violation) => asked.breaks.test(violation))) return tell({ seed, violations })
    }
    return tell({})
  }
  const drawn = drawSchedule(asked.seed)
  const schedule = asked.isShrunk ? await shrink(drawn, loaded) : drawn
  const simulation = new Simulation(schedule, loaded, true)
  const violations = await simulation.run()
  tell({ seed: asked.seed, violations, schedule, trace: simulation.world.trace ?? [] })
})
