/** The PostgreSQL under test, with settings of one's choice: embedded, or in a container with the stack's limits. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse } from 'yaml'
import { execute } from '../test/support/execute.ts'
import { freePort, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import type { Defer } from './directory.ts'

/** Server settings by name (PostgreSQL manual, "Server Configuration"). */
export type Settings = Record<string, string>

/** A cluster whose server can be started with other settings each time. */
export interface Cluster {
  /** Where it runs, for the heading of the tables. */
  readonly place: string
  /** Free bytes of its disk, or undefined if they are not known. */
  freeBytes(): Promise<number | undefined>
  start(settings: Settings): Promise<Running>
}

/** A running server. */
export interface Running {
  /** The superuser's URL of a database. */
  url(name: string): string
  /** The server's first process, of which the others are children. */
  readonly pid: number
  /** SIGINT ends it cleanly; after SIGQUIT the next start recovers as after a crash. */
  stop(signal: 'SIGINT' | 'SIGQUIT'): Promise<void>
}

/** How long a server may take to start, with a recovery. */
const startLimitMs = 600_000

interface Stack {
  readonly image: string
  readonly settings: Settings
  readonly cpus: string
  readonly memory: string
  readonly sharedMemory: string
}

/** Returns what docker-compose.yml says of the database: its image, its settings and its limits. */
export function readStack(): Stack {
  const text = readFileSync(join(import.meta.dirname, '../docker-compose.yml'), 'utf8')
  const { db } = parse(text, { merge: true }).services
  const fill = (value: string) =>
    value.replaceAll(/\$\{(\w+):-([^}]*)\}/g, (_, name, other) => process.env[name] || other)
  const flags: string[] = db.command.map(fill)
  const settings = flags.flatMap((flag) => {
    const [, name, value] = /^--(\w+)=(.*)$/.exec(flag) ?? []
    return name === undefined ? [] : [[name, value]]
  })
  const { cpus, memory } = db.deploy.resources.limits
  return {
    image: fill(db.image),
    settings: Object.fromEntries(settings),
    cpus,
    memory,
    sharedMemory: db.shm_size
  }
}

/** A cluster of the embedded PostgreSQL, in a directory. */
export function embeddedCluster(directory: string, defer: Defer): Cluster {
  return {
    place: 'PostgreSQL without limits',
    freeBytes: () => readFreeBytes(directory),
    async start(settings) {
      const server = await startPostgres({ directory, settings })
      defer(server.stop)
      const stop = async (signal: NodeJS.Signals) => {
        if (server.process.exitCode !== null || server.process.signalCode !== null) return
        server.process.kill(signal)
        await once(server.process, 'exit')
      }
      return { url: server.url, pid: server.process.pid ?? 0, stop }
    }
  }
}

/** A cluster in a volume; each start is a container with the image and the limits of the stack. */
export async function containerCluster(defer: Defer): Promise<Cluster> {
  const { image, cpus, memory, sharedMemory } = readStack()
  const name = `plant-store-bench-${randomBytes(4).toString('hex')}`
  const password = randomBytes(16).toString('hex')
  const port = await freePort()
  const docker = (...args: string[]) => execute('docker', args)
  await docker('volume', 'create', name)
  defer(() => docker('volume', 'rm', name))
  const url = (database: string) => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`
  const limits = [`--cpus=${cpus}`, `--memory=${memory}`, `--shm-size=${sharedMemory}`]
  const fixed = [`--publish=127.0.0.1:${port}:5432`, `--volume=${name}:/var/lib/postgresql`]
  return {
    place: `PostgreSQL in a container of ${cpus} CPU and ${memory}`,
    freeBytes: async () => {
      const directory = await docker('info', '--format={{.DockerRootDir}}')
      return readFreeBytes(directory).catch(() => undefined)
    },
    async start(settings) {
      const flags = Object.entries(settings).map(([key, value]) => `--${key}=${value}`)
      const secret = ['--env', `POSTGRES_PASSWORD=${password}`]
      await docker(
        'run',
        '--detach',
        `--name=${name}`,
        ...limits,
        ...fixed,
        ...secret,
        image,
        'postgres',
        ...flags
      )
      const remove = () => docker('rm', '--force', name)
      defer(() => remove().catch(() => {}))
      await ready(url('postgres'))
      const pid = Number(await docker('inspect', '--format={{.State.Pid}}', name))
      const stop = async (signal: NodeJS.Signals) => {
        await docker('kill', `--signal=${signal}`, name)
        await docker('wait', name)
        await remove()
      }
      return { url, pid, stop }
    }
  }
}

/** Returns when a server answers; throws if it does not within its limit. */
export async function ready(url: string): Promise<void> {
  const began = performance.now()
  for (;;) {
    try {
      await query(url, 'select')
      return
    } catch (error) {
      if (performance.now() > began + startLimitMs) throw error
      await sleep(50)
    }
  }
}

async function readFreeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize
}
