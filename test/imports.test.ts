/** Folders import one way, src imports nothing of what proves it, and docs/promises.md names each proof. */
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import t from 'tap'
import { samples } from '../src/plants/statements.ts'

const root = join(import.meta.dirname, '..')
const exclude = ['**/node_modules/**', 'bench/peers/**', '**/generated/**']

/** What each source imports of the others. */
const files = new Map(
  globSync('{src,test,bench,dev}/**/*.ts', { cwd: root, exclude }).map((file) => {
    const found = readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)
    return [
      file,
      new Set([...found].map(([, path]) => normalize(join(dirname(file), path as string))))
    ]
  })
)

/** The folder of a source; a file directly below src is one of its own. */
const folderOf = (file: string) => (dirname(file) === 'src' ? file : dirname(file))

t.test('folders of src never import each other in a cycle', async (t) => {
  const folders = new Map<string, Set<string>>()
  for (const [file, imports] of files) {
    const others = [...imports].map(folderOf).filter((folder) => folder !== folderOf(file))
    folders.set(folderOf(file), new Set([...(folders.get(folderOf(file)) ?? []), ...others]))
  }
  const done = new Set<string>()
  const visit = (folder: string, above: string[]) => {
    if (above.includes(folder))
      t.fail([...above.slice(above.indexOf(folder)), folder].join(' imports '))
    else if (!done.has(folder))
      for (const next of folders.get(folder) ?? []) visit(next, [...above, folder])
    done.add(folder)
  }
  for (const folder of folders.keys()) if (folder.startsWith('src')) visit(folder, [])
})

/** Returns the imports of files in a folder that lead to such a path. */
const importsFrom = (folder: string, path: RegExp) =>
  [...files]
    .filter(([file]) => file.startsWith(folder))
    .flatMap(([file, imports]) => [...imports].map((imported) => `${file} imports ${imported}`))
    .filter((line) => path.test(line.split(' imports ')[1] ?? ''))

t.test('src imports src alone, and the tests of promises nothing of it', async (t) => {
  t.strictSame(importsFrom('src', /^(?!src\/)/), [])
  t.strictSame(importsFrom('test/promises', /^src\//), [])
})

t.test(
  'group commit knows no SQL and no HTTP, and only src/database imports the driver',
  async (t) => {
    t.strictSame(importsFrom('src/group-commit', /^src\/(database|http|plants)/), [])
    const drivers = [...files.keys()].filter(
      (file) => file.startsWith('src') && /from 'pg'/.test(readFileSync(join(root, file), 'utf8'))
    )
    t.strictSame(new Set(drivers.map(folderOf)), new Set(['src/database']))
  }
)

t.test('each statement of plants is checked before the service serves', async (t) => {
  const source = readFileSync(join(root, 'src/plants/statements.ts'), 'utf8')
  const [declared = '', samples = ''] = source.split('export const samples')
  const statements = declared
    .split(/^export (?:const|function) /m)
    .filter((text) => /\btext: /.test(text))
  const names = statements.map((text) => /\w+/.exec(text)?.[0] ?? '')
  t.ok(names.includes('findPlants'))
  for (const name of names) t.ok(new RegExp(`\\b${name}\\b`).test(samples), `samples: ${name}`)
})

t.test(
  'each statement waits for the disk and the standby; each route with a token is in the document',
  async (t) => {
    for (const { text } of samples) {
      t.match(text, /'synchronous_commit'/)
      // Only a commit that writes waits.
      t.match(
        text,
        /insert into plants \(.*\)\s+select .*\s+where|do \$block\$|pg_logical_emit_message/
      )
    }
    for (const file of globSync('src/**/*.ts', { cwd: root })) {
      const source = readFileSync(join(root, file), 'utf8')
      const count = (pattern: RegExp) => source.match(pattern)?.length ?? 0
      t.equal(
        count(/\bapp\.authenticate\b/g),
        file.endsWith('docs.ts') ? 0 : count(/\btags: \[/g),
        file
      )
    }
  }
)

t.test('docs/promises.md names each file of test/promises', async (t) => {
  const page = readFileSync(join(root, 'docs/promises.md'), 'utf8')
  const rows = page.split('\n').filter((line) => /^\|\d+b?\|/.test(line))
  const named = rows.flatMap(
    (row) =>
      row
        .split('|')
        .at(-2)
        ?.match(/[\w-]+/g) ?? []
  )
  for (const file of globSync('test/promises/*.test.ts', { cwd: root }))
    t.ok(named.includes(basename(file, '.test.ts')), file)
})

t.test('no line of src has more than 100 columns', async (t) => {
  for (const file of globSync('src/**/*.ts', { cwd: root })) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    const long = lines.flatMap(({ length }, index) => (length > 100 ? `${file}:${index + 1}` : []))
    t.strictSame(long, [])
  }
})
