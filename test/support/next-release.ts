/**
 * The release after this one, as a contributor makes it by CONTRIBUTING.md: plants have one more optional field,
 * `next_height`, which no release has.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { root, serverFile } from './process.ts'
import type { Teardown } from './teardown.ts'

/** What changes in a file: a text that is there once, and what takes its place. */
const changes: Record<string, [before: string, after: string][]> = {
  'src/plants/schema.ts': [
    [
      'export const kinds = {',
      `export const kinds = {
  NextInt32: [
    'an integer from -2147483648 to 2147483647',
    (value: unknown) => Number.isInteger(value) && Number(value) === (Number(value) | 0)
  ],`
    ],
    [
      'const fields = {',
      `const fields = {
  next_height: Type.Optional(field<number>('NextInt32', 'Height in cm', { type: 'integer', format: 'int32' })),`
    ]
  ],
  'src/plants/statements.ts': [['string> = { Int64:', `string> = { NextInt32: 'integer', Int64:`]]
}

/** Its migration. */
export const addHeight = 'alter table plants add column next_height integer'

/** Writes the next release into a folder that is removed at teardown. Returns its entry point, below the repository. */
export function makeNextRelease(t: Teardown): string {
  const folder = mkdtempSync(join(root, '.tap/next-release-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const name of ['src', 'package.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true })
  for (const [file, edits] of Object.entries(changes)) {
    let text = readFileSync(join(folder, file), 'utf8')
    for (const [before, after] of edits) {
      if (text.split(before).length !== 2) throw new Error(`${file} does not have once: ${before}`)
      text = text.replace(before, () => after)
    }
    writeFileSync(join(folder, file), text)
  }
  return relative(root, join(folder, serverFile))
}
