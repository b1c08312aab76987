/** Simulates many seeds, in as many threads as the machine has processors. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Schedule } from './schedule.ts'

/** What a thread is asked: the first seed that fails, or what happens in one. */
export type Asked = { from: number; to: number; breaks: RegExp } | { seed: number; isShrunk: boolean }

/** What it tells. */
export interface Told {
  /** Absent where none has failed. */
  seed?: number
  violations?: string[]
  schedule?: Schedule
  trace?: string[]
}

/** The sources that are simulated. */
export const sources = `${import.meta.dirname}/../../src`

/** So many seeds are handed to a thread at once. */
const portion = 50

async function ask(worker: Worker, asked: Asked): Promise<Told> {
  worker.postMessage(asked)
  // It rejects with what the thread has thrown.
  const [told] = await once(worker, 'message')
  return told
}

/** Calls back with a thread that simulates the sources in a folder. */
async function withWorker<Result>(src: string, use: (worker: Worker) => Promise<Result>): Promise<Result> {
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: src })
  return use(worker).finally(() => worker.terminate())
}

/** Simulates `count` seeds from 0 on; gives the first of them that breaks a rule, or such a rule. */
export async function explore(count: number, { src = sources, breaks = /./ } = {}): Promise<Told> {
  let next = 0
  let first: Told = {}
  async function work(worker: Worker) {
    while (next < count && first.seed === undefined) {
      const from = next
      next += portion
      const told = await ask(worker, { from, to: Math.min(next, count), breaks })
      if (told.seed !== undefined && told.seed < (first.seed ?? Number.POSITIVE_INFINITY)) first = told
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, () => withWorker(src, work)))
  return first
}

/** Tells what happens in one seed, or in the smallest schedule found that fails as well. */
export const replay = (seed: number, isShrunk: boolean, src = sources): Promise<Told> =>
  withWorker(src, (worker) => ask(worker, { seed, isShrunk }))
