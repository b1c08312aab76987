/** The generated files: none is stale, and each holds all of its sources. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { generateFiles } from '../../dev/generated/files.ts'
import { catalogue, type Entry } from '../../src/failures/catalogue.ts'
import { failuresOf } from '../../src/operation.ts'
import { operations } from '../../src/plants/route.ts'

const root = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(root, path), 'utf8')

for (const [path, expected] of await generateFiles()) {
  t.test(`${path} is up to date: otherwise run \`npm run generate\``, async (t) => {
    t.equal(text(path), expected)
  })
}

t.test('each failure is met by each request, or declared by an operation', async (t) => {
  const met = new Set(operations.flatMap(failuresOf).map(([name]) => `${name}`))
  for (const [name, { scope }] of Object.entries<Entry>(catalogue))
    t.ok(scope?.includes('request') || met.has(name), name)
})

t.test('each variable that the sources read is documented, and is in .env.example', async (t) => {
  const sources = globSync('src/{config,tracing,commands}/*.ts', { cwd: root }).map(text).join('\n')
  const found = sources.matchAll(/\benv\.([A-Z_]+)|'(OTEL_[A-Z_]+)'|^ {2}([A-Z][A-Z_]+): /gm)
  const names = new Set([...found].map((groups) => groups.slice(1).find(Boolean) as string))
  t.ok(names.size > 25)
  const page = text('docs/configuration.md')
  const example = text('.env.example')
  for (const name of names) {
    t.match(page, new RegExp(`\`${name}\\b`), name)
    if (!name.startsWith('OTEL_')) t.match(example, new RegExp(`^#?${name}=`, 'm'), name)
  }
})
