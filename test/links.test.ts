/** Each relative link of a page leads to a file of the repository, and to a heading that is there. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const listed = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'],
  {
    cwd: root,
    encoding: 'utf8'
  }
)
const pages = listed.split('\n').filter((path) => path && existsSync(join(root, path)))

/** The anchors that GitHub gives to a page's headings, and those that it sets itself. */
function anchorsOf(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8')
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
  )
  return [...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id)]
}

t.test('each link leads somewhere', async (t) => {
  t.ok(pages.includes('README.md'))
  for (const page of pages) {
    const text = readFileSync(join(root, page), 'utf8').replaceAll(/```.*?```|`[^`\n]*`/gs, '')
    for (const [, link = ''] of text.matchAll(/(?:\]\(|(?:href|src|srcset)=")([^)"\s]+)/g)) {
      if (/^\w+:/.test(link)) continue
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? page : join(dirname(page), path)
      if (!existsSync(join(root, target))) t.fail(`${page}: ${link} is not there`)
      else if (anchor && target.endsWith('.md') && !anchorsOf(target).includes(anchor))
        t.fail(`${page}: ${link} names no heading`)
    }
  }
})
