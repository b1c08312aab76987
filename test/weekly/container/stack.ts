/** The stack of docker-compose.yml, from a clean copy of the checkout, as a person starts it. */
import { randomBytes } from 'node:crypto'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { openProject } from '../../support/compose.ts'
import { docker, root } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { assertRows, type StoredRow, selectRows } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'

/** Copies the checkout, without what Git ignores, until teardown; returns where it is. */
export async function copyCheckout(t: Test) {
  const cwd = await mkdtemp(join(tmpdir(), 'plant-store-stack-'))
  t.teardown(() => rm(cwd, { recursive: true, force: true }))
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate']
  for (const path of (await execute('git', listed, { cwd: root })).split('\0').filter(Boolean)) {
    await mkdir(dirname(join(cwd, path)), { recursive: true })
    await cp(join(root, path), join(cwd, path))
  }
  await execute('chmod', ['-R', 'go=rX', cwd])
  return cwd
}

/** Returns commands that run in a copy of the checkout; removes all of it at teardown. */
export async function copyStack(t: Test, settings: Record<string, string> = {}) {
  const cwd = await copyCheckout(t)
  const name = `plant-store-test-${randomBytes(4).toString('hex')}`
  await writeFile(join(cwd, '.env'), `COMPOSE_PROJECT_NAME=${name}\n`)
  const env = {
    COMPOSE_PROJECT_NAME: name,
    PORT: '0',
    WRITE_DEADLINE_MS: '60000',
    STOP_GRACE_PERIOD: '120s',
    ...settings
  }
  const { compose, psql, url } = openProject(cwd, env)
  t.teardown(async () => {
    if (!t.passing()) t.comment(await compose('logs', '--tail=50'))
    await compose('--profile=*', 'down', '--volumes', '--timeout=5')
    // By tag: the same sources give another stack the same image.
    const tags = await docker(['image', 'ls', '--format={{.Repository}}:{{.Tag}}', `${name}-api`])
    await docker(['image', 'rm', '--force', ...tags.split('\n')])
  })
  let nextId = 1

  const stack = {
    cwd,
    env,
    compose,
    /** The balancer's address, which stays the same while its container runs. */
    url: () => url('balancer', 3000),
    /** The access token that was made for a caller. */
    token: (caller = 'dev') => compose('run', '--rm', '-T', 'setup', caller),
    /** The containers of a service that run. */
    running: async (service: string) => {
      // Not by Compose, which takes ten times as long: a drain could begin and end between two looks.
      const labels = [`project=${name}`, `service=${service}`, 'oneoff=False']
      const filters = labels.map((label) => `--filter=label=com.docker.compose.${label}`)
      return (await docker(['ps', '--quiet', '--no-trunc', ...filters])).split('\n').filter(Boolean)
    },
    /** The lines that a query returns. */
    query: (sql: string) => psql('db', 'plants', sql),
    /** The plants with ids in a range. */
    async plants(firstId?: number, lastId?: number): Promise<StoredRow[]> {
      const lines = await psql('db', 'plants', selectRows(firstId, lastId))
      return lines.map((line) => JSON.parse(line))
    },
    /** Runs lines of a page in the copy, in one shell that ends at the first error; returns what they print. */
    play: (lines: string) =>
      execute('bash', ['-euc', lines], { cwd, env: { ...env, COMPOSE_PROGRESS: 'quiet' } }),
    /** Starts clients, and returns the proof that none of their creates fails and each plant is stored once. */
    async startClients(t: Test) {
      const [url, token] = [await stack.url(), await stack.token()]
      const load = startRivals({ urls: [url], token, clients: 16, pauseMs: 160, firstId: nextId })
      t.teardown(() => load.stop())
      await load.succeed(200)
      const stop = async () => {
        const history = await load.stop()
        nextId += history.operations.length
        return history
      }
      return {
        succeed: load.succeed,
        stop,
        async assertServed() {
          const firstId = nextId
          await load.succeed(200)
          const history = await stop()
          assertRows(t, await stack.plants(firstId, nextId - 1), history)
          t.strictSame(history.failed, [], 'no client saw an error')
        }
      }
    }
  }
  return stack
}

export type Stack = Awaited<ReturnType<typeof copyStack>>

/** Builds and starts a copy of the stack. */
export async function startStack(t: Test, settings: Record<string, string> = {}) {
  const stack = await copyStack(t, settings)
  await stack.compose('build')
  await stack.token() // before the replicas start: later, they need a second to read it
  await stack.compose('up', '--detach', '--wait')
  return stack
}
