/** Faults of one container, which any stack can have. */
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../support/until.ts'
import type { Fault } from './run.ts'
import type { Kind } from './schedule.ts'
import { type Stack, settleMs } from './stack.ts'

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
    strike: () => stack.docker('restart', stack.container(service))
  }),

  /** Stops all its processes for this many ms. */
  paused: (what: string, service: string, ms: number): Fault => ({
    name: `${what} hangs for ${ms / 1000} s`,
    async strike() {
      await stack.docker('pause', stack.container(service))
      await sleep(ms)
      await stack.docker('unpause', stack.container(service))
    }
  })
})

/** Returns when all containers that these kinds can hit are running. */
export const allRun = (stack: Stack, kinds: Kind[]) =>
  until(
    'everything runs',
    () => stack.runs([...new Set(kinds.flatMap(({ targets, needs }) => targets.flatMap(needs)))]),
    (runs) => !runs.includes(undefined),
    settleMs
  )

const group = 'process'

/** The faults of processes that a schedule can draw, for these containers: `node1`, `api-2`. */
export function createProcessKinds(
  stack: Stack,
  targets: string[],
  hits: (target: string) => string[] = (target) => [target]
): Kind[] {
  const container = (target: string) => {
    const [service = '', index] = target.split('-')
    return stack.container(service, Number(index ?? 1))
  }
  const run =
    (command: string, ...options: string[]) =>
    (target: string) =>
      stack.docker(command, ...options, container(target))
  const ifPaused = async (target: string, action: () => Promise<unknown>) => {
    const state = await stack.docker('inspect', '--format', '{{.State.Status}}', container(target))
    if (state === 'paused') await action()
  }
  const common = { targets, hits, needs: (target: string) => [container(target)] }
  return [
    {
      ...{ ...common, name: 'is ended by SIGKILL', group, longest: 15 },
      strike: run('kill', '--signal', 'KILL'),
      heal: run('start')
    },
    {
      ...{ ...common, name: 'is stopped by SIGSTOP', group, longest: 25 },
      // The error for a process that waits for the kernel.
      refusal: /unable to freeze/i,
      strike: run('pause'),
      heal: (target) => ifPaused(target, () => run('unpause')(target))
    },
    { ...common, name: 'is restarted', group, longest: 0, strike: run('restart') },
    {
      ...{ ...common, name: 'has a twentieth of a processor', group: 'processor', longest: 25 },
      strike: run('update', '--cpus', '0.05'),
      heal: run('update', '--cpus', String(availableParallelism()))
    }
  ]
}
