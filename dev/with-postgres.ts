/**
 * Runs a command with a fresh PostgreSQL 18, whose superuser's URL is in TEST_DATABASE_URL: a container where Docker can start
 * one in time, the embedded PostgreSQL elsewhere and with TEST_POSTGRES=embedded. With TEST_POSTGRES=oldest it is an embedded 15.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PostgreSqlContainer } from '@testcontainers/postgresql'
import { getContainerRuntimeClient, Wait } from 'testcontainers'
import { isOldest, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { compileCache } from '../test/support/process.ts'

const image = process.env.POSTGRES_IMAGE || 'postgres:18'
const settings = { max_connections: '300' }
/** A registry may not respond, and a busy engine may take longer than the tests. */
const containerLimitMs = 60_000

const { name, url, stop } = (await tryContainer()) ?? (await startEmbedded().catch(giveUp))
process.stdout.write(`PostgreSQL for the tests: ${name}\n`)
const [command = '', ...args] = process.argv.slice(2)
const child = spawn(command, args, {
  stdio: 'inherit',
  // With the cache, a test file starts in two thirds of the time.
  env: { ...process.env, TEST_DATABASE_URL: url, NODE_COMPILE_CACHE: compileCache }
})
// The command gets the terminal's signals itself; this process outlives it to clean up.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
const [code, signal] = await once(child, 'close').catch(({ message }) => {
  process.stderr.write(`${message}: run npm ci --ignore-scripts=false\n`)
  return [1]
})
if (signal) process.stderr.write(`${command} was ended by ${signal}\n`)
await stop()
// Docker may still be pulling.
process.exit(code ?? 1)

/** Returns undefined where there is no Docker, and also, after a line, where it cannot start the container in time. */
async function tryContainer() {
  if (isOldest || process.env.TEST_POSTGRES === 'embedded') return undefined
  const starting = startContainer()
  const limit = sleep(containerLimitMs, undefined, { ref: false }).then(() => {
    throw new Error(`it was not ready within ${containerLimitMs / 1000} s`)
  })
  try {
    return await Promise.race([starting, limit])
  } catch (error) {
    void starting.then(
      (container) => container?.stop(),
      () => {}
    )
    const [reason] = String((error as Error).message).split('\n')
    process.stdout.write(
      `No container of ${image}, so the tests take the embedded PostgreSQL: ${reason}\n`
    )
    return undefined
  }
}

async function startContainer() {
  const hasDocker = await getContainerRuntimeClient().then(
    () => true,
    () => false
  )
  if (!hasDocker) return undefined
  const flags = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
  const container = await new PostgreSqlContainer(image)
    .withCommand(['postgres', ...flags])
    // While the image sets up the cluster, a server without TCP runs. The module's own health check would start a process
    // four times a second for as long as the tests run.
    .withWaitStrategy(
      Wait.forAll([
        Wait.forSuccessfulCommand('pg_isready --host=127.0.0.1'),
        Wait.forListeningPorts()
      ])
    )
    .withHealthCheck({ test: ['CMD', 'true'], interval: 86_400_000 })
    .start()
  return {
    name: `Testcontainers, ${image}`,
    url: container.getConnectionUri(),
    stop: () => container.stop()
  }
}

async function startEmbedded() {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  const server = await startPostgres({ directory, settings })
  const stop = async () => {
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
  return { name: `embedded, PostgreSQL ${isOldest ? 15 : 18}`, url: server.url('postgres'), stop }
}

function giveUp(error: Error): never {
  process.stderr.write(
    `${error.message}\nnpm test: PostgreSQL did not start: start Docker, or run npm ci --ignore-scripts=false\n`
  )
  process.exit(1)
}
