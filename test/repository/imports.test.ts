/** Files and folders import one way only, and `src`, `harness`, `bench`, `dev` and `test` only what stands before them. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t, { type Test } from 'tap'

const root = join(import.meta.dirname, '../..')
/** Packages of their own, and what they generate. */
const exclude = ['**/node_modules/**', 'bench/peers/**', 'test/generated-client/generated/**']
/** The order in which they build on each other. */
const order = ['src', 'harness', 'bench', 'dev', 'test']
const files = new Map(
  globSync(`{${order}}/**/*.ts`, { cwd: root, exclude }).map((file) => {
    const found = readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)
    return [file, new Set([...found].map(([, path]) => normalize(join(dirname(file), path as string))))]
  })
)
/** A file directly below src is a room of its own; bench is one room. */
const roomOf = (file: string) =>
  dirname(file) === 'src' ? file : file.startsWith('bench/') ? 'bench' : dirname(file)
const rooms = new Map<string, Set<string>>()
for (const [file, imports] of files) {
  const room = rooms.get(roomOf(file)) ?? new Set()
  for (const imported of imports) if (roomOf(imported) !== roomOf(file)) room.add(roomOf(imported))
  rooms.set(roomOf(file), room)
}

/** Fails for each cycle of imports. */
function runOneWay(t: Test, graph: Map<string, Set<string>>) {
  const done = new Set<string>()
  const visit = (node: string, above: string[]) => {
    if (above.includes(node)) t.fail([...above.slice(above.indexOf(node)), node].join(' imports '))
    else if (!done.has(node)) for (const next of graph.get(node) ?? []) visit(next, [...above, node])
    done.add(node)
  }
  for (const node of graph.keys()) visit(node, [])
}

t.test('files never import each other in a cycle', async (t) => {
  t.ok(files.get('src/app.ts')?.has('src/auth/auth.ts'))
  runOneWay(t, new Map([...files].filter(([file]) => /^(src|harness)/.test(file))))
})

t.test('folders never import each other in a cycle', async (t) => {
  t.ok(rooms.get('src/plants')?.has('src/database'))
  runOneWay(t, rooms)
})

t.test('src imports nothing of what proves it, each other only what stands before it', async (t) => {
  const rank = (file: string) => order.indexOf(file.replace(/\/.*/, ''))
  for (const [file, imports] of files)
    for (const imported of imports) t.ok(rank(imported) <= rank(file), `${file} imports ${imported}`)
})

t.test('every import is of a file that exists', async (t) => {
  for (const [file, imports] of files)
    for (const imported of imports)
      t.ok(files.has(imported) || imported.includes('/generated/'), `${file} imports ${imported}`)
})

t.test('group commit knows no SQL and no HTTP; only rooms of the database import the driver', async (t) => {
  t.strictSame(rooms.get('src/group-commit'), new Set(['src/shared']))
  t.strictSame(rooms.get('src/shared'), new Set())
  const importing = (pattern: RegExp) =>
    [...files.keys()].filter(
      (file) => file.startsWith('src') && pattern.test(readFileSync(join(root, file), 'utf8'))
    )
  t.strictSame(new Set(importing(/from 'pg'/).map(roomOf)), new Set(['src/database']))
  // What opens pools also moves them to a new URL, measures and ends them.
  t.strictSame(importing(/\bnew pg\.Pool\b/), ['src/database/pool.ts'])
  t.strictSame(
    importing(/process\.env/)
      .map(roomOf)
      .sort(),
    ['src/commands', 'src/commands', 'src/server.ts']
  )
})
