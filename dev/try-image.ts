/** Starts an image of the service on a migrated database and creates a plant: `try-image.ts IMAGE [linux/amd64|linux/arm64]`. */
import { randomBytes } from 'node:crypto'
import { docker } from '../test/support/docker.ts'
import { startDatabase } from '../test/support/docker-database.ts'
import { createPlant } from '../test/support/post.ts'
import { until } from '../test/support/until.ts'

const [image = '', platform] = process.argv.slice(2)
/** What Node calls the platforms. */
const machines: Record<string, string> = { 'linux/amd64': 'x64', 'linux/arm64': 'arm64' }
const token = randomBytes(24).toString('base64url')
const database = await startDatabase()
const name = `${database.container}-service`
const run = ['run', '--network', database.network, ...(platform ? ['--platform', platform] : [])]
try {
  const migrate = [image, 'node', 'dist/commands/migrate.js']
  await docker([...run, '--rm', `--env=MIGRATION_DATABASE_URL=${database.url}`, ...migrate])
  const settings = [`--env=DATABASE_URL=${database.url}`, `--env=AUTH_TOKENS=try:${token}`]
  await docker([...run, '--detach', '--name', name, '--publish=127.0.0.1::3000', ...settings, image])
  const url = `http://${await docker(['port', name, '3000/tcp'])}`
  await until('the service is ready', async () => (await fetch(`${url}/readyz`)).ok)
  const response = await createPlant(url, token, { id: 1, name: 'Fern' })
  const rows = await database.sql('select id, name from plants')
  const machine = await docker(['exec', name, 'node', '--print', 'process.arch'])
  console.log(`${image} (${machine}): ${response}, stored: ${rows}`)
  const isExpected = platform === undefined || machine === machines[platform]
  if (!isExpected || !response.startsWith('200 ') || rows.join() !== '1|Fern') process.exitCode = 1
} finally {
  await docker(['rm', '--force', name])
  await database.remove()
}
