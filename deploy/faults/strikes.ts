/** Faults of one container, which any stack can have. */
import { setTimeout as sleep } from 'node:timers/promises'
import { docker } from '../../dev/docker.ts'
import type { Fault } from './run.ts'
import type { Stack } from './stack.ts'

const downMs = 1_000

/** Makes the faults of a stack's services; `what` is what the table calls the service. */
export const createStrikes = (stack: Stack) => ({
  /** Ends it by SIGKILL, and starts it again a second later. */
  killed: (what: string, service: string): Fault => ({
    name: `SIGKILL of ${what}`,
    async strike() {
      await stack.kill(service)
      await sleep(downMs)
      await stack.start(service)
    }
  }),

  restarted: (what: string, service: string): Fault => ({
    name: `${what} is restarted`,
    strike: () => docker(['restart', stack.container(service)])
  }),

  /** Stops all its processes for so many ms. */
  paused: (what: string, service: string, ms: number): Fault => ({
    name: `${what} hangs for ${ms / 1000} s`,
    async strike() {
      await docker(['pause', stack.container(service)])
      await sleep(ms)
      await docker(['unpause', stack.container(service)])
    }
  })
})
