/** The stack of docker-compose.yml, from a clean copy of the checkout, as a person starts it. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { openProject } from './compose.ts'
import { docker, root } from './docker.ts'
import { execute } from './execute.ts'
import { assertRows, selectRows } from './histories/history.ts'
import type { StoredRow } from './histories/judge.ts'
import { startRivals } from './histories/rivals.ts'

/** Makes a directory, which is removed at teardown. */
export async function makeDirectory(t: Test) {
  const path = await mkdtemp(join(tmpdir(), 'plant-store-stack-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Returns commands that run in a copy of the checkout, without what Git ignores; removes all of it at teardown. */
export async function copyStack(t: Test, settings: Record<string, string> = {}) {
  const cwd = await makeDirectory(t)
  const copy = `git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$0" && chmod -R go=rX "$0"`
  await execute('sh', ['-c', copy, cwd], { cwd: root })
  const name = `plant-store-test-${randomBytes(4).toString('hex')}`
  await writeFile(join(cwd, '.env'), `COMPOSE_PROJECT_NAME=${name}\n`)
  const limits = { WRITE_DEADLINE_MS: '60000', STOP_GRACE_PERIOD: '120s' }
  const env = { COMPOSE_PROJECT_NAME: name, PORT: '0', ...limits, ...settings }
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
    ...{ cwd, name, compose },
    /** The balancer's address, which stays the same while its container runs. */
    url: () => url('balancer', 3000),
    /** The access token that was made for a caller. */
    token: (caller = 'dev') => compose('run', '--rm', '-T', 'setup', caller),
    /** The containers of a service that run. */
    running: async (service: string) => (await compose('ps', '--quiet', service)).split('\n'),
    /** The lines that a query returns. */
    query: (sql: string) => psql('db', 'plants', sql),
    /** The plants with ids in a range. */
    plants: async (firstId?: number, lastId?: number): Promise<StoredRow[]> =>
      (await psql('db', 'plants', selectRows(firstId, lastId))).map((line) => JSON.parse(line)),
    /** Runs lines of a page in the copy, in one shell that ends at the first error; returns what they print. */
    play: (lines: string) =>
      execute('bash', ['-euc', lines], { cwd, env: { ...env, COMPOSE_PROGRESS: 'quiet' } }),
    /** Builds and starts it. */
    async start() {
      await compose('build')
      await stack.token() // before the replicas start: later, they need a second to read it
      await compose('up', '--detach', '--wait')
    },
    /** Starts clients, and returns the proof that none of their creates fails and each plant is stored once. */
    async startClients(t: Test) {
      const firstId = nextId
      const [url, token] = [await stack.url(), await stack.token()]
      const { succeed, stop } = startRivals({ urls: [url], token, clients: 16, pauseMs: 160, firstId })
      t.teardown(() => stop())
      await succeed(200)
      return {
        ...{ succeed, stop },
        async assertServed() {
          await succeed(200)
          const history = await stop()
          nextId += history.operations.length
          assertRows(t, await stack.plants(firstId, nextId - 1), history)
          t.strictSame(history.failed, [], 'no client saw an error')
        }
      }
    }
  }
  return stack
}
