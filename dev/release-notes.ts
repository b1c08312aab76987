/** Prints the section of a release in CHANGELOG.md: `release-notes.ts VERSION`. Exits with 1 if there is none. */
import { readFileSync } from 'node:fs'

const version = process.argv[2] ?? ''
const changelog = readFileSync(new URL('../CHANGELOG.md', import.meta.url), 'utf8')
const section = changelog.split('\n## ').find((text) => text.split(' - ')[0] === version)
const notes = section?.slice(section.indexOf('\n')).trim()
if (notes) process.stdout.write(`${notes}\n`)
else {
  process.stderr.write(`CHANGELOG.md has nothing on ${version}\n`)
  process.exitCode = 1
}
