/**
 * Runs a command with a fresh PostgreSQL 18: a Testcontainers one where Docker runs and has its image, the
 * embedded one elsewhere (or where TEST_POSTGRES=embedded). With TEST_POSTGRES=oldest it is an embedded 15. The command finds its superuser URL in TEST_DATABASE_URL.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PostgreSqlContainer } from '@testcontainers/postgresql'
import { getContainerRuntimeClient, Wait } from 'testcontainers'
import { isOldest, startPostgres } from '../test/support/postgres/embedded-postgres.ts'

const image = process.env.POSTGRES_IMAGE || 'postgres:18'
const settings = { max_connections: '300' }

const { name, url, stop } = ((await hasDocker()) && (await tryContainer())) || (await startEmbedded())
process.stdout.write(`PostgreSQL for the tests: ${name}\n`)
const [command = '', ...args] = process.argv.slice(2)
const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, TEST_DATABASE_URL: url } })
// The command gets the terminal's signals itself; this process outlives it to clean up.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
const [code, signal] = await once(child, 'close')
if (signal) process.stderr.write(`${command} was ended by ${signal}\n`)
await stop()
process.exitCode = code ?? 1

async function hasDocker(): Promise<boolean> {
  if (isOldest || process.env.TEST_POSTGRES === 'embedded') return false
  return getContainerRuntimeClient().then(
    () => true,
    () => false
  )
}

/** An engine that answers may reach no registry: then one line says so, and the embedded PostgreSQL is as good. */
async function tryContainer() {
  return startContainer().catch((error) => {
    const [reason] = String(error.message ?? error).split('\n')
    process.stderr.write(
      `Docker has no container of ${image}, the tests take the embedded PostgreSQL: ${reason}\n`
    )
    return undefined
  })
}

async function startContainer() {
  const flags = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
  const container = await new PostgreSqlContainer(image)
    .withCommand(['postgres', ...flags])
    // While the image sets up the cluster, a server without TCP runs. The module's own health check would start a process
    // four times a second for as long as the tests run.
    .withWaitStrategy(
      Wait.forAll([Wait.forSuccessfulCommand('pg_isready --host=127.0.0.1'), Wait.forListeningPorts()])
    )
    .withHealthCheck({ test: ['CMD', 'true'], interval: 86_400_000 })
    .start()
  return { name: `Testcontainers, ${image}`, url: container.getConnectionUri(), stop: () => container.stop() }
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
