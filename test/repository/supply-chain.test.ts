/** What ships: the list of its packages is whole, and each has a licence that is accepted. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const shipped = Object.entries<{ version: string; dev?: boolean }>(lockfile.packages)
  .filter(([path, { dev }]) => path !== '' && !dev)
  .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`)

interface Component {
  group?: string
  name: string
  version: string
  components?: Component[]
}

/** The components within components too. */
const flatten = (components: Component[] = []): Component[] =>
  components.flatMap((component) => [component, ...flatten(component.components)])

t.test('npm run sbom lists every package of the lockfile that ships, and no other', async (t) => {
  const directory = t.testdir()
  const path = join(directory, 'sbom.json')
  await run('npm', ['run', 'sbom', '--', '--output-file', path], { cwd: root })
  const sbom = JSON.parse(readFileSync(path, 'utf8'))
  t.match(sbom, {
    bomFormat: 'CycloneDX',
    metadata: { component: { name: 'plant-store', type: 'application' } }
  })
  const listed = flatten(sbom.components).map(
    ({ group, name, version }) => `${group ? `${group}/` : ''}${name}@${version}`
  )
  t.strictSame([...new Set(listed)].sort(), [...new Set(shipped)].sort())
})

t.test('npm run licenses lists every package that ships', async (t) => {
  const { stdout } = await run(process.execPath, ['dev/licenses.ts'], { cwd: root })
  const listed = stdout.split('\n').filter((line) => line.startsWith('  '))
  t.strictSame(listed.map((line) => line.trim()).sort(), [...new Set(shipped)].sort())
})
