/** What ships: each package is listed with a licence that is accepted. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const shipped = Object.entries<{ version: string; dev?: boolean }>(lockfile.packages)
  .filter(([path, { dev }]) => path !== '' && (!dev || path === 'node_modules/swagger-ui-dist'))
  .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`)

t.test(
  'every package that ships is listed by its licence, also the one whose files the build copies',
  async (t) => {
    const { stdout } = await run(process.execPath, ['dev/checks/licenses.ts'], { cwd: root })
    const listed = stdout.split('\n').filter((line) => line.startsWith('  '))
    t.strictSame(listed.map((line) => line.trim()).sort(), [...new Set(shipped)].sort())
  }
)
