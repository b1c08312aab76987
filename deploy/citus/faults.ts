/** The service on Citus under load and faults: `node deploy/citus/faults.ts [--short | part of a fault's name]`. */
import { selectPlants } from '../faults/report.ts'
import { chooseFaults, type Fault, runFaults } from '../faults/run.ts'
import { createStack } from '../faults/stack.ts'
import { createStrikes } from '../faults/strikes.ts'
import { createCluster } from './cluster.ts'
import { checkRepeats, createClient } from './repeats.ts'

/** A slow machine's restarts must not reach it. */
const deadlineMs = 20_000
process.env.WRITE_DEADLINE_MS = String(deadlineMs)
/** Shorter than a statement's third of the deadline, and longer. */
const [shortPauseMs, longPauseMs] = [4_000, 10_000]

const stack = createStack(import.meta.dirname, 'plant-store-citus', ['api'])
const cluster = createCluster(stack)
const entry = { service: 'balancer', port: 3000 }

const { killed, restarted, paused } = createStrikes(stack)

const inDoubt: Fault = {
  name: 'a transaction in doubt holds an id',
  async strike() {
    const id = -1
    await cluster.leaveInDoubt(id)
    const create = createClient(await stack.url(entry.service, entry.port))
    const answer = await create(id, 'held')
    if (answer !== '{"name":"held"}') throw new Error(`the id in doubt got ${answer}`)
  }
}

const all = [
  killed('a worker', 'worker1'),
  killed('the coordinator', 'coordinator'),
  paused('a worker', 'worker2', shortPauseMs),
  inDoubt,
  killed('the other worker', 'worker2'),
  killed('the coordinator once more', 'coordinator'),
  restarted('a worker', 'worker1'),
  restarted('the coordinator', 'coordinator'),
  paused('a worker', 'worker2', longPauseMs)
]
const short = all.slice(0, 4)

await runFaults({
  stack,
  entry,
  deadlineMs,
  faults: chooseFaults(process.argv[2], all, short),
  async readRows(firstId, lastId) {
    await cluster.isDecided()
    const lines = await cluster.query('coordinator', selectPlants(firstId, lastId))
    return lines.map((line) => JSON.parse(line))
  },
  /** Both workers hold rows, the step that distributes may be repeated, and taken ids are told apart. */
  async check() {
    await cluster.isSpread()
    await stack.compose('run', '--rm', '--no-deps', '-T', 'distribute')
    await cluster.isSpread()
    await checkRepeats(await stack.url(entry.service, entry.port))
    await cluster.isDecided()
  }
})
