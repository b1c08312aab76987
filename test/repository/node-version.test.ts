/** One version of Node for all, and what is said where another one, or only a part of the packages, is there. */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(root, path), 'utf8')
const version = text('.nvmrc').trim()
const [major] = version.split('.')
const { engines, devDependencies, scripts } = JSON.parse(text('package.json'))

t.test('package.json, the lockfile, the images, CI and the pages have the version of .nvmrc', async (t) => {
  t.equal(JSON.parse(text('package-lock.json')).packages['node_modules/node'].version, version)
  t.equal(engines.node, `>=${major}`)
  for (const name of ['node', '@types/node']) t.match(devDependencies[name], new RegExp(`^\\^${major}\\.`))
  const found = (path: string, pattern: RegExp) => [...text(path).matchAll(pattern)].map(([, found]) => found)
  for (const path of ['Dockerfile', 'docker-compose.yml', '.env.example'])
    t.strictSame(found(path, /\bnode:(\d[\d.]*)-/g), [version], path)
  t.strictSame(found('.ci/steps.bash', /\bnode:(\d+)-/g), [major])
  for (const path of globSync('.github/workflows/*.yml', { cwd: root }))
    for (const source of found(path, /(node-version(?:-file)?: [^\s,}]+)/g))
      t.equal(source, 'node-version-file: .nvmrc', path)
  for (const path of ['README.md', 'CONTRIBUTING.md', 'docs/testing.md'])
    t.strictSame([...new Set(found(path, /\bNode(?:\.js)? (\d+)/g))], [major], path)
})

const reinstall = 'run npm ci --ignore-scripts=false'
const installed = { '.bin': { node: '' } }
const page = { docs: { 'swagger-ui.css.gz': '' } }
const states: [what: string, purpose: string[], files: object, fault?: string][] = [
  ['before npm ci', ['development'], {}, `packages are missing: ${reinstall}`],
  ['without the package node', ['development'], { node_modules: {}, public: page }, `in part: ${reinstall}`],
  ['without scripts', ['development'], { node_modules: installed, public: {} }, `in part: ${reinstall}`],
  ['installed', ['development'], { node_modules: installed, public: page }],
  ['not built', ['built'], { node_modules: {} }, 'dist/ is missing: run npm run build'],
  ['built', ['built'], { node_modules: {}, dist: { 'server.js': '' } }],
  ['for a token', [], { node_modules: {} }]
]
for (const [what, purpose, files, fault] of states) {
  t.test(`${what}: ${fault ?? 'no fault'}`, async (t) => {
    const check = (node: string) => {
      const cwd = t.testdir({ ...files, 'package.json': JSON.stringify({ engines: { node } }) })
      const args = [join(root, 'ops/check-node.mjs'), ...purpose]
      return spawnSync(process.execPath, args, { cwd, encoding: 'utf8' })
    }
    const { status, stdout, stderr } = check('>=24')
    t.strictSame([status, stdout], [fault ? 78 : 0, ''])
    t.match(stderr, fault ? new RegExp(`^plant-store: .*${fault}\n$`) : /^$/)
    const old = check('>=99')
    t.equal(old.status, 78)
    t.match(
      old.stderr,
      /^plant-store: Node\.js 99 or later is needed, \/.* is \d+\.\d+\.\d+: install it, or run .*\n$/
    )
  })
}

t.test('npm scripts of users look first', async (t) => {
  const purposes = {
    prepare: '',
    dev: ' development',
    test: ' development',
    start: ' built',
    migrate: ' built',
    token: ''
  }
  for (const [name, purpose] of Object.entries(purposes))
    t.ok(scripts[name].startsWith(`node ops/check-node.mjs${purpose} && `), name)
})
