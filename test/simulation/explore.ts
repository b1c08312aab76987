/** Simulates many seeds, in as many threads as the machine has processors. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Schedule } from './schedule.ts'

/** A thread's task: to find the first seed that fails, or to show what happens in one. */
export type Task = { from: number; to: number; breaks: RegExp } | { seed: number; isShrunk: boolean }

/** Its result. */
export interface Findings {
  /** Absent if none has failed. */
  seed?: number
  violations?: string[]
  schedule?: Schedule
  trace?: string[]
}

interface Search {
  /** The folder of the sources. */
  readonly src?: string
  /** The first seed. */
  readonly from?: number
  /** The rule that must be broken. */
  readonly breaks?: RegExp
}

const sources = `${import.meta.dirname}/../../src`

/** How many seeds a thread gets at once. */
const portion = 5

/** Threads with these sources that wait for a task: loading them takes longer than about twenty seeds. */
const idle: Worker[] = []

/** What a thread reports: the seed of each simulation that it begins, and in the end its findings. */
export type Report = { begins: number } | Findings

/** A simulation takes some hundredths of a second, a large one a second. One that takes this long, in ms, never ends. */
const endlessMs = 30_000

/** Rejects with what the thread has thrown. If a simulation never ends, the thread is terminated: that is a finding. */
function assign(worker: Worker, task: Task): Promise<Findings> {
  const { promise, resolve, reject } = Promise.withResolvers<Findings>()
  let seed = 'seed' in task ? task.seed : task.from
  const timer = setTimeout(async () => {
    worker.off('message', onReport)
    await worker.terminate()
    resolve({ seed, violations: [`seed ${seed} never ends`] })
  }, endlessMs)
  const onReport = (report: Report) => {
    timer.refresh()
    if ('begins' in report) seed = report.begins
    else resolve(report)
  }
  worker.on('message', onReport)
  worker.once('error', reject)
  worker.postMessage(task)
  return promise.finally(() => {
    clearTimeout(timer)
    worker.off('message', onReport)
    worker.off('error', reject)
  })
}

/** Calls back with a thread that simulates these sources. */
async function withWorker<Result>(src: string, use: (worker: Worker) => Promise<Result>): Promise<Result> {
  const worker = (src === sources && idle.pop()) || startWorker(src)
  worker.ref()
  // A thread that throws ends by itself.
  const result = await use(worker)
  if (src === sources && worker.threadId !== -1) {
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
export async function explore(count: number, options: Search = {}): Promise<Findings> {
  const { src = sources, breaks = /./, from: start = 0 } = options
  const end = start + count
  let next = start
  let first: Findings = {}
  async function work(worker: Worker) {
    while (next < end && first.seed === undefined) {
      const from = next
      next += portion
      const found = await assign(worker, { from, to: Math.min(next, end), breaks })
      if (found.seed !== undefined && found.seed < (first.seed ?? Number.POSITIVE_INFINITY)) first = found
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, () => withWorker(src, work)))
  return first
}

/** Returns what happens in one seed, or in the smallest schedule found that fails as well. */
export const replay = (seed: number, isShrunk: boolean): Promise<Findings> =>
  withWorker(sources, (worker) => assign(worker, { seed, isShrunk }))
