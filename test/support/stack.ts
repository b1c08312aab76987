/** A Compose stack: built, started, asked and loaded, and taken down with everything that it made. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { execute } from './execute.ts'
import { assertRows, selectRows } from './histories/history.ts'
import type { StoredRow } from './histories/judge.ts'
import { type Options, startRivals } from './histories/rivals.ts'
import { freePort } from './postgres/embedded-postgres.ts'
import { root } from './process.ts'

/** Runs `docker` with these arguments as `execute` does. */
export const docker = (args: string[], options?: Parameters<typeof execute>[2]) =>
  execute('docker', args, options)

/** Returns what `docker inspect` knows of containers or images. */
export const inspect = async (...names: string[]) => JSON.parse(await docker(['inspect', ...names]))

const toLines = (output: string) => output.split('\n').filter((line) => line !== '')

/** A running stack. */
export type Stack = Awaited<ReturnType<typeof openStack>>

/** Returns the operations on the stack of a directory and these settings; removes all that it has made at teardown. */
export async function openStack(
  t: Test,
  name: string,
  cwd: string,
  settings: Record<string, string>
) {
  const PORT = String(await freePort())
  // The page of deploy/ha promises 35 s; a minute is for a slow machine, and below the balancer's 70 s.
  const limits = { WRITE_DEADLINE_MS: '60000', STOP_GRACE_PERIOD: '120s' }
  const env = {
    COMPOSE_PROJECT_NAME: name,
    COMPOSE_PROGRESS: 'quiet',
    PORT,
    ...limits,
    ...settings
  }
  const compose = (...args: string[]) => docker(['compose', ...args], { cwd, env })
  t.teardown(async () => {
    if (!t.passing()) t.comment(await compose('logs', '--no-color', '--tail=50'))
    await compose('--profile=*', 'down', '--volumes', '--timeout=5', '--remove-orphans')
    // By tag: the same sources give another stack the same image.
    const tags = await docker(['image', 'ls', '--format={{.Repository}}:{{.Tag}}', `${name}-*`])
    if (tags) await docker(['image', 'rm', '--force', ...toLines(tags)])
  })
  const container = (service: string, index = 1) => `${name}-${service}-${index}`
  let nextId = 1

  const stack = {
    ...{ name, cwd, compose, container, url: `http://127.0.0.1:${PORT}` },
    /** Runs a command in a service's container; not by Compose, which would first read all its files. */
    exec: (service: string, ...command: string[]) =>
      docker(['exec', container(service), ...command]),
    /** Runs statements in a database's container, each a transaction of its own, and returns their lines. */
    async psql(service: string, user: string, ...statements: string[]) {
      const psql = [
        'psql',
        '--no-psqlrc',
        '--quiet',
        '--tuples-only',
        '--no-align',
        '--set=ON_ERROR_STOP=1'
      ]
      const commands = statements.map((statement) => `--command=${statement}`)
      return toLines(
        await stack.exec(service, ...psql, `--username=${user}`, '--dbname=plants', ...commands)
      )
    },
    /** The lines that a query returns where all plants can be seen. */
    query: (sql: string) => stack.psql('db', 'plants', sql),
    /** The plants with ids from this one. */
    plants: async (firstId?: number): Promise<StoredRow[]> =>
      (await stack.query(selectRows(firstId))).map((line) => JSON.parse(line)),
    /** The access token that was made for a caller. */
    token: (caller = 'dev') => compose('run', '--rm', '-T', 'setup', caller),
    /** The containers of a service that run. */
    running: async (service: string) => toLines(await compose('ps', '--quiet', service)),
    /** Runs lines of a page, in one shell that ends at the first error; returns what they print. */
    play: (lines: string) => execute('bash', ['-euc', lines], { cwd, env }),
    /** Builds and starts it. */
    async start(...flags: string[]) {
      await compose('build', '--quiet')
      await stack.token() // before the replicas start: later, they need a second to read it
      await compose('up', '--detach', ...flags)
    },
    /** Starts clients, and returns the proof that none of their creates fails and each plant is stored once. */
    async startClients(t: Test, options: Partial<Options> = {}) {
      const firstId = nextId
      const rest = { clients: 16, pauseMs: 160, firstId, ...options }
      const load = startRivals({ urls: [stack.url], token: await stack.token(), ...rest })
      t.teardown(() => load.stop())
      await load.succeed(200)
      return {
        ...load,
        async assertServed() {
          await load.succeed(200)
          const history = await load.stop()
          nextId += history.operations.length
          assertRows(t, await stack.plants(firstId), history)
          t.strictSame(history.failed.slice(0, 5), [], 'no client saw an error')
        }
      }
    }
  }
  return stack
}

/** Makes a directory, which is removed at teardown. */
export async function makeDirectory(t: Test) {
  const path = await mkdtemp(join(tmpdir(), 'plant-store-stack-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Opens the stack of docker-compose.yml in a copy of the checkout, without what Git ignores, as a person starts it. */
export async function copyStack(t: Test, settings: Record<string, string> = {}) {
  const cwd = await makeDirectory(t)
  const copy = `git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$0" && chmod -R go=rX "$0"`
  await execute('sh', ['-c', copy, cwd], { cwd: root })
  const name = `plant-store-test-${randomBytes(4).toString('hex')}`
  await writeFile(join(cwd, '.env'), `COMPOSE_PROJECT_NAME=${name}\n`)
  return openStack(t, name, cwd, settings)
}
