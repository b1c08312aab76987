/** The pages stay short enough to be read. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { glossary } from '../../dev/generated/glossary.ts'
import { notice } from '../../dev/generated/markdown.ts'

const root = join(import.meta.dirname, '../..')
const generatedPart = /<!-- (\w+): made by .*?<!-- \1: end -->/gs
const mostWords = 12_000

t.test('the pages that are written by hand have 12,000 words at most, as wc counts', async (t) => {
  const pages = globSync('{*,docs/**/*,deploy/**/*}.md', { cwd: root, exclude: ['CHANGELOG.md'] })
  t.ok(pages.length > 25)
  const counts = pages.map((page) => {
    const text = readFileSync(join(root, page), 'utf8')
    const words = text.includes(notice) ? [] : (text.replace(generatedPart, '').match(/\S+/g) ?? [])
    return { page, words: words.length }
  })
  const total = counts.reduce((sum, { words }) => sum + words, 0)
  const longest = counts.toSorted((one, other) => other.words - one.words).slice(0, 5)
  t.ok(total <= mostWords, `${total} words; the longest pages: ${JSON.stringify(longest)}`)
})

t.test('src uses no word that the glossary has retired', async (t) => {
  const files = globSync('src/**/*.ts', { cwd: root })
  t.ok(files.length > 60)
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    for (const [word, { retired }] of Object.entries(glossary))
      if (retired) t.notMatch(text, retired, `${file} says ${word}`)
  }
})
