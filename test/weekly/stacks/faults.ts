/** A stack of deploy/, struck by faults under load. */
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { judgeHistory } from '../../support/histories/judge.ts'
import type { Operation } from '../../support/histories/rivals.ts'
import { commandsOf } from '../../support/pages.ts'
import { root } from '../../support/process.ts'
import { docker, openStack, type Stack } from '../../support/stack.ts'
import { until } from '../../support/until.ts'

/** What goes wrong, and how it is repaired. Both run under load; rejections are failures. */
export interface Fault {
  name: string
  strike(): Promise<unknown>
  /** Runs once creates succeed again: brings back what is gone, and waits for it. */
  repair?(): Promise<unknown>
  /** Clients send again what broke or got 503; otherwise each create must succeed at its first request. */
  isRepeating?: boolean
}

/** Creates a plant at each `host=id`, without the balancer; the key makes it safe to send it again. */
const createAll = `
  const [token, ...creates] = process.argv.slice(1)
  const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json', 'idempotency-key': 'k' }
  const bodies = creates.map(async (each) => {
    const [host, id] = each.split('=')
    const body = '{"id":' + id + ',"name":"n"}'
    return (await fetch('http://' + host + ':3000/plants', { method: 'POST', headers, body })).text()
  })
  Promise.all(bodies).then((texts) => console.log(texts.join('\\n')))`

/** The Compose files of a folder of deploy/, by the directory that their paths are relative to. */
const stacks = {
  citus: { cwd: root, files: ['docker-compose.yml', 'deploy/citus/compose.yaml'] },
  pgbouncer: { cwd: root, files: ['docker-compose.yml', 'deploy/pgbouncer/compose.yaml'] },
  ha: { cwd: join(root, 'deploy/ha'), files: ['compose.yaml'] }
}

/** Starts the stack of a folder in deploy/, with more Compose files. */
export async function startStack(t: Test, folder: keyof typeof stacks, ...more: string[]) {
  const name = `plant-store-${folder}-${process.pid}`
  const { cwd, files } = stacks[folder]
  const faultFiles = ['no-health-checks.yaml', ...more].map((file) =>
    resolve(import.meta.dirname, file)
  )
  const stack = await openStack(t, name, cwd, {
    COMPOSE_FILE: [...files, ...faultFiles].join(':'),
    COMPOSE_DISABLE_ENV_FILE: 'true',
    PLANT_STORE_IMAGE: `${name}-api`,
    // A line for each request would take more time than the request.
    LOG_LEVEL: 'warn'
  })
  await stack.start()
  await until('the service is ready', async () => (await fetch(`${stack.url}/readyz`)).ok)
  return stack
}

/** Ends a container by SIGKILL. */
export const kill = (stack: Stack, service: string, index?: number) =>
  docker(['kill', '--signal=KILL', stack.container(service, index)])
export const start = (stack: Stack, service: string, index?: number) =>
  docker(['start', stack.container(service, index)])

/** The commands of docs/compose.md that rotate the passwords of the database. */
const rotate = commandsOf('compose.md', 'Rotate the passwords').join('\n')

/** Faults that any service of a stack can have. */
export const faultsOf = (stack: Stack) => ({
  rotated: (service: string): Fault => ({
    name: `the passwords are rotated, and ${service} is restarted`,
    async strike() {
      await stack.play(rotate)
      await docker(['restart', '--time=120', stack.container(service)])
    }
  }),
  killed: (service: string): Fault => ({
    name: `SIGKILL of ${service}`,
    async strike() {
      await kill(stack, service)
      await sleep(1_000)
      await start(stack, service)
    }
  }),
  restarted: (service: string): Fault => ({
    name: `${service} is restarted`,
    strike: () => docker(['restart', stack.container(service)])
  }),
  paused: (service: string, ms: number): Fault => ({
    name: `${service} hangs for ${ms / 1_000} s`,
    async strike() {
      await docker(['pause', stack.container(service)])
      await sleep(ms)
      await docker(['unpause', stack.container(service)])
    }
  })
})

let lastId = 0
/** Returns ids for the plants of a check: negative, as those of the load are positive, and never given out twice. */
export const takeIds = (count: number) => Array.from({ length: count }, () => --lastId)

/** Runs each fault in the middle of a load, whose clients rest, so that the machine has time for the fault. */
export async function runFaults(t: Test, stack: Stack, replicas: string[], faults: Fault[]) {
  const all: Operation[] = []
  for (const { name, strike, repair, isRepeating = false } of faults)
    await t.test(name, async (t) => {
      const load = await stack.startClients(t, { clients: 8, pauseMs: 100, isRepeating })
      await strike()
      await load.succeed(100)
      await repair?.()
      await load.assertServed()
      all.push(...(await load.stop()).operations)
      await assertEachCreates(stack, replicas)
    })
  await t.test('no fault has lost what survived an earlier one', async (t) => {
    t.strictSame(judgeHistory(all, await stack.plants()).slice(0, 5), [])
  })
}

/** Returns when each replica, such as `api-2`, creates: the balancer would hide one that has not recovered. */
async function assertEachCreates(stack: Stack, replicas: string[]) {
  const ids = takeIds(replicas.length)
  const creates = replicas.map((replica, index) => `${stack.name}-${replica}=${ids[index]}`)
  const token = await stack.token()
  const create = async () =>
    (await stack.exec('api', 'node', '-e', createAll, '--', token, ...creates)).split('\n')
  const areCreated = (bodies: string[]) =>
    bodies.length === replicas.length && bodies.every((body) => body === '{"name":"n"}')
  await until(`each of ${replicas} creates`, create, areCreated)
}
