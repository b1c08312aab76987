/** Simulates many seeds, in as many threads as the machine has processors. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { LieName } from './lies.ts'
import type { Schedule } from './schedule.ts'

/** A thread's task: to find the first seed that fails, or to show what happens in one. */
export type Asked = { lie?: LieName | undefined } & (
  | { from: number; to: number; breaks: RegExp }
  | { seed: number; isShrunk: boolean }
)

/** Its result. */
export interface Told {
  /** Absent where none has failed. */
  seed?: number
  violations?: string[]
  schedule?: Schedule
  trace?: string[]
}

interface Search {
  /** The folder of the sources. */
  readonly src?: string
  /** What is told of their responses instead of the truth. */
  readonly lie?: LieName
  /** The first seed. */
  readonly from?: number
  /** The rule that must be broken. */
  readonly breaks?: RegExp
}

const sources = `${import.meta.dirname}/../../src`

/** How many seeds a thread gets at once: few, since a lie is mostly found by the first. */
const portion = 5

/** Threads with these sources that wait for a task: to load them takes longer than some twenty seeds. */
const idle: Worker[] = []

async function ask(worker: Worker, asked: Asked): Promise<Told> {
  worker.postMessage(asked)
  // It rejects with what the thread has thrown.
  const [told] = await once(worker, 'message')
  return told
}

/** Calls back with a thread that simulates these sources. */
async function withWorker<Result>(src: string, use: (worker: Worker) => Promise<Result>): Promise<Result> {
  const worker = (src === sources && idle.pop()) || startWorker(src)
  worker.ref()
  // A thread that throws ends by itself.
  const result = await use(worker)
  if (src === sources) {
    worker.unref()
    idle.push(worker)
  } else await worker.terminate()
  return result
}

/** The thread does without the flags of this process: tap's coverage would take a third of its time. */
const startWorker = (src: string) =>
  new Worker(new URL('worker.ts', import.meta.url), {
    workerData: src,
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '' }
  })

/** Simulates `count` seeds; returns the first of them that breaks a rule, or such a rule. */
export async function explore(count: number, options: Search = {}): Promise<Told> {
  const { src = sources, lie, breaks = /./, from: start = 0 } = options
  const end = start + count
  let next = start
  let first: Told = {}
  async function work(worker: Worker) {
    while (next < end && first.seed === undefined) {
      const from = next
      next += portion
      const told = await ask(worker, { lie, from, to: Math.min(next, end), breaks })
      if (told.seed !== undefined && told.seed < (first.seed ?? Number.POSITIVE_INFINITY)) first = told
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, () => withWorker(src, work)))
  return first
}

/** Tells what happens in one seed, or in the smallest schedule found that fails as well. */
export const replay = (seed: number, isShrunk: boolean, lie?: LieName): Promise<Told> =>
  withWorker(sources, (worker) => ask(worker, { lie, seed, isShrunk }))
