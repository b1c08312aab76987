/** The service on Citus under load and faults: `node test/stacks/citus/faults.ts [part of a name | --seed 7 --minutes 30 | --short]`. */
import { freePort } from '../../../support/postgres/embedded-postgres.ts'
import { parseMetrics } from '../../../support/metrics-page.ts'
import { chooseFaults, type Fault, runFaults } from '../run.ts'
import { deadlineMs, settings } from '../settings.ts'
import { createStack } from '../stack.ts'
import { allRun, createProcessKinds, createStrikes } from '../strikes.ts'
import { createCluster } from './cluster.ts'
import { checkRepeats, createClient } from './repeats.ts'

/** Shorter than a statement's third of the deadline, and longer. */
const [shortPauseMs, longPauseMs] = [4_000, 10_000]

const stack = createStack('citus', ['api'], { ...settings, PORT: String(await freePort()) }, [
  'citus/rare-health-checks.yaml'
])
const cluster = createCluster(stack)

const { killed, restarted, paused } = createStrikes(stack)

const inDoubt: Fault = {
  name: 'a transaction in doubt holds an id',
  async strike() {
    const [id = 0] = stack.takeIds(1)
    await cluster.leaveInDoubt(id)
    const create = createClient(await stack.url('balancer', 3000), await stack.token())
    const response = await create(id, 'held')
    if (response !== '200 {"name":"held"}') throw new Error(`the id in doubt got ${response}`)
  }
}

/** Throws unless each replica has written more plants than transactions, whatever shards they belong to. */
async function sharesCommits() {
  const read = `fetch('http://127.0.0.1:9464/metrics').then(async (page) => console.log(await page.text()))`
  for (const index of [1, 2]) {
    const { value } = parseMetrics(
      await stack.compose('exec', '-T', '--index', String(index), 'api', 'node', '-e', read)
    )
    const rows = value('plant_store_batch_rows_sum') / value('plant_store_batch_rows_count')
    if (!(rows > 1)) throw new Error(`replica ${index} has written ${rows} plants in a transaction`)
  }
}

const short = [
  killed('a worker', 'worker1'),
  killed('the coordinator', 'coordinator'),
  paused('a worker', 'worker2', shortPauseMs)
]
const all = [
  ...short,
  killed('the other worker', 'worker2'),
  killed('the coordinator once more', 'coordinator'),
  restarted('a worker', 'worker1'),
  restarted('the coordinator', 'coordinator'),
  paused('a worker', 'worker2', longPauseMs)
]

const replicas = ['api-1', 'api-2']
/** Only replicas exist more than once. */
const isAvailable = (hits: string[]) => hits.every((hit) => hit === hits[0] && replicas.includes(hit))
const kinds = createProcessKinds(stack, ['coordinator', 'worker1', 'worker2', 'balancer', ...replicas])
const forms = [{ title: 'Citus', balancer: 'balancer', replicas, isAvailable }]

await runFaults({
  stack,
  forms,
  deadlineMs,
  faults: chooseFaults(
    { all, short, last: [inDoubt] },
    { stack, forms, kinds, isWhole: () => allRun(stack, kinds) }
  ),
  async query(sql) {
    await cluster.isDecided()
    return await cluster.query('coordinator', sql)
  },
  /** Batches were shared, both workers hold rows, the step that distributes may be repeated, and repeats get the right responses. */
  async check() {
    await sharesCommits()
    await cluster.isSpread()
    await stack.compose('run', '--rm', '--no-deps', '-T', 'distribute')
    await cluster.isSpread()
    await checkRepeats(await stack.url('balancer', 3000), stack)
    await cluster.isDecided()
  }
})
