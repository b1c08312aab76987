/** A Compose stack of deploy/: brought up, struck by faults under load, and taken down with everything that it made. */
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { openProject } from '../../support/compose.ts'
import { docker, psql, root, toLines } from '../../support/docker.ts'
import { assertRows, selectRows } from '../../support/histories/history.ts'
import { judgeHistory } from '../../support/histories/judge.ts'
import { type Operation, startRivals } from '../../support/histories/rivals.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { until } from '../../support/until.ts'

/** A running stack. */
export type Stack = Awaited<ReturnType<typeof startStack>>

/** What goes wrong, and how it is repaired. Both run under load; rejections are failures. */
export interface Fault {
  name: string
  strike(): Promise<unknown>
  /** Runs once creates succeed again: brings back what is gone, and waits for it. */
  repair?(): Promise<unknown>
  /** Clients send again what broke or got 503; otherwise each create must succeed at its first request. */
  isRepeating?: boolean
}

/** Clients of the load. One rests after each response, so that the machine has time for the fault. */
const [clients, pauseMs] = [8, 100]
/** Creates that must succeed before, amid and after each fault. */
const enough = 100
const idsPerLoad = 1_000_000

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

/**
 * Builds and starts a stack: its folder in deploy/, the images that it builds (by their names after the project's), its
 * settings, and more Compose files. At teardown its containers, networks, volumes and images go.
 */
export async function startStack(
  t: Test,
  folder: keyof typeof stacks,
  images: string[],
  settings: Record<string, string>,
  more: string[] = []
) {
  const name = `plant-store-${folder}-${process.pid}`
  const { cwd, files } = stacks[folder]
  const faultFiles = ['no-health-checks.yaml', ...more].map((file) => resolve(import.meta.dirname, file))
  const { compose, url } = openProject(cwd, {
    COMPOSE_FILE: [...files, ...faultFiles].join(':'),
    COMPOSE_PROJECT_NAME: name,
    COMPOSE_DISABLE_ENV_FILE: 'true',
    PLANT_STORE_IMAGE: `${name}-api`,
    // The balancer must be found again after its end.
    PORT: String(await freePort()),
    // A line for each request would take more time than the request.
    LOG_LEVEL: 'warn',
    ...settings
  })
  t.teardown(async () => {
    if (!t.passing()) t.comment(await compose('logs', '--no-color', '--tail=50'))
    await compose('down', '--volumes', '--timeout=0', '--remove-orphans')
    await docker(['image', 'rm', '--force', ...images.map((image) => `${name}-${image}`)])
  })
  await compose('build', '--quiet')
  const token = await compose('run', '--rm', '-T', 'setup', 'dev') // before the service starts, which reads it late
  await compose('up', '--detach')

  let lastId = 0
  const container = (service: string, index = 1) => `${name}-${service}-${index}`
  /** Not by Compose, which would first read all its files. */
  const exec = (service: string, ...command: string[]) => docker(['exec', container(service), ...command])
  /** Ends a container by SIGKILL. */
  const kill = (service: string, index = 1) => docker(['kill', '--signal=KILL', container(service, index)])
  const start = (service: string, index = 1) => docker(['start', container(service, index)])

  return {
    ...{ name, compose, url, token, container, exec, kill, start },
    /** Runs statements in a database's container, each a transaction of its own, and returns their lines. */
    psql: async (service: string, user: string, ...statements: string[]) =>
      toLines(await exec(service, ...psql(user, 'plants', ...statements))),
    /** Ids for the plants of a check: negative, as those of the load are positive, and never given out twice. */
    takeIds: (count: number) => Array.from({ length: count }, () => --lastId),
    /** Faults that any service can have: `what` is what the title calls it. */
    killed: (what: string, service: string): Fault => ({
      name: `SIGKILL of ${what}`,
      async strike() {
        await kill(service)
        await sleep(1_000)
        await start(service)
      }
    }),
    restarted: (what: string, service: string): Fault => ({
      name: `${what} is restarted`,
      strike: () => docker(['restart', container(service)])
    }),
    paused: (what: string, service: string, ms: number): Fault => ({
      name: `${what} hangs for ${ms / 1_000} s`,
      async strike() {
        await docker(['pause', container(service)])
        await sleep(ms)
        await docker(['unpause', container(service)])
      }
    })
  }
}

/** Runs each fault in the middle of a load; `query` runs on `plants` once every acknowledged row can be seen. */
export async function runFaults(
  t: Test,
  stack: Stack,
  replicas: string[],
  faults: Fault[],
  query: (sql: string) => Promise<string[]>
) {
  const url = await stack.url('balancer', 3000)
  await until('the service is ready', async () => (await fetch(`${url}/readyz`)).ok)
  const select = async (first: number, last?: number) =>
    (await query(selectRows(first, last))).map((line) => JSON.parse(line))
  const all: Operation[] = []
  let firstId = idsPerLoad

  for (const { name, strike, repair, isRepeating = false } of faults) {
    await t.test(name, async (t) => {
      const from = firstId
      firstId += idsPerLoad
      const options = { clients, pauseMs, isRepeating, firstId: from }
      const load = startRivals({ urls: [url], token: stack.token, ...options })
      t.teardown(() => load.stop())
      await load.succeed(enough)
      await strike()
      await load.succeed(enough)
      await repair?.()
      await load.succeed(enough)
      const history = await load.stop()
      await assertEachCreates(stack, replicas)
      assertRows(t, await select(from, from + idsPerLoad - 1), history)
      t.strictSame(history.failed.slice(0, 5), [], 'no create failed')
      all.push(...history.operations)
    })
  }
  await t.test('no fault has lost what survived an earlier one', async (t) => {
    t.strictSame(judgeHistory(all, await select(idsPerLoad)).slice(0, 5), [])
  })
}

/** Returns when each replica, such as `api-2`, creates: the balancer would hide one that has not recovered. */
async function assertEachCreates(stack: Stack, replicas: string[]) {
  const ids = stack.takeIds(replicas.length)
  const creates = replicas.map((replica, index) => `${stack.name}-${replica}=${ids[index]}`)
  await until(
    `each of ${replicas} creates`,
    async () =>
      (
        await docker(['exec', stack.container('api'), 'node', '-e', createAll, '--', stack.token, ...creates])
      ).split('\n'),
    (bodies) => bodies.length === replicas.length && bodies.every((body) => body === '{"name":"n"}')
  )
}
