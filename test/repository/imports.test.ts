/** Who imports whom, as docs/architecture.md has it. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '../..')
const imports = new Map(
  globSync('src/**/*.ts', { cwd: root }).map((file) => {
    const found = readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)
    return [file, [...found].map(([, path]) => normalize(join(dirname(file), path as string)))]
  })
)

t.test('imports never run in a circle', async (t) => {
  t.ok(imports.get('src/app.ts')?.includes('src/auth/auth.ts'))
  const done = new Set<string>()
  const visit = (file: string, above: string[]) => {
    if (above.includes(file)) t.fail([...above, file].join(' imports '))
    else if (!done.has(file)) for (const next of imports.get(file) ?? []) visit(next, [...above, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
})

t.test('what holds no HTTP imports none, and group commit no SQL either', async (t) => {
  const allowed = {
    'src/group-commit/': /^src\/(group-commit\/|answer-error\.ts)/,
    'src/database/': /^src\/(database|config|group-commit)\/|^src\/[\w-]+\.ts/,
    'src/repositories/':
      /^src\/(repositories|database|group-commit|tracing)\/|^src\/[\w-]+\.ts|^src\/plugins\/schema\.ts/
  }
  for (const [folder, pattern] of Object.entries(allowed)) {
    const outward = [...imports]
      .filter(([file]) => file.startsWith(folder))
      .flatMap(([file, paths]) =>
        paths.filter((path) => !pattern.test(path)).map((path) => `${file}: ${path}`)
      )
    t.strictSame(outward, [], folder)
  }
})
