/** Fails if actionlint finds a fault in the workflows. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
/** Newer than the linter's lists. */
const known = /^unknown permission scope "attestations"|^unexpected key "queue" for "concurrency"/

// Not a literal: only this folder has the package, and TypeScript would look for its types in the checkout.
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
