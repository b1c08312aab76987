/** Simulates many seeds, in as many threads as the machine has processors. */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { LieName } from './lies.ts'
import type { Schedule } from './schedule.ts'

/** A thread's task: to find the first seed that fails, or to show what happens in one. */
export type Asked = { from: number; to: number; breaks: RegExp } | { seed: number; isShrunk: boolean }

/** Its result. */
export interface Told {
  /** Absent where none has failed. */
  seed?: number
  violations?: string[]
  schedule?: Schedule
  trace?: string[]
}

/** What a thread simulates. */
export interface Subject {
  /** The folder of the sources. */
  readonly src: string
  /** What is told of their responses instead of the truth. */
  readonly lie?: LieName | undefined
}

interface Search extends Partial<Subject> {
  /** The first seed. */
  readonly from?: number
  /** The rule that must be broken. */
  readonly breaks?: RegExp
}

const sources = `${import.meta.dirname}/../../src`

/** How many seeds a thread gets at once. */
const portion = 50

async function ask(worker: Worker, asked: Asked): Promise<Told> {
  worker.postMessage(asked)
  // It rejects with what the thread has thrown.
  const [told] = await once(worker, 'message')
  return told
}

/** Calls back with a thread that simulates. */
async function withWorker<Result>(
  { src = sources, lie }: Partial<Subject>,
  use: (worker: Worker) => Promise<Result>
): Promise<Result> {
  const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: { src, lie } })
  return use(worker).finally(() => worker.terminate())
}

/** Simulates `count` seeds; returns the first of them that breaks a rule, or such a rule. */
export async function explore(count: number, options: Search = {}): Promise<Told> {
  const { breaks = /./, from: start = 0 } = options
  const end = start + count
  let next = start
  let first: Told = {}
  async function work(worker: Worker) {
    while (next < end && first.seed === undefined) {
      const from = next
      next += portion
      const told = await ask(worker, { from, to: Math.min(next, end), breaks })
      if (told.seed !== undefined && told.seed < (first.seed ?? Number.POSITIVE_INFINITY)) first = told
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, () => withWorker(options, work)))
  return first
}

/** Tells what happens in one seed, or in the smallest schedule found that fails as well. */
export const replay = (seed: number, isShrunk: boolean, subject: Partial<Subject> = {}): Promise<Told> =>
  withWorker(subject, (worker) => ask(worker, { seed, isShrunk }))
