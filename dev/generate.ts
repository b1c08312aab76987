/** `npm run generate`: writes the files that are made from the sources. With --check it fails for each that is stale. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateFiles } from './generated/files.ts'

const root = join(import.meta.dirname, '..')
const isCheck = process.argv.includes('--check')

for (const [path, text] of await generateFiles()) {
  const file = join(root, path)
  if (!isCheck) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    process.exitCode = 1
    process.stderr.write(`${path} is stale: run \`npm run generate\`\n`)
  }
}
