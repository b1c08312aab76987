/** Pages of which parts are generated, each between two markers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Returns the page with the text of each part put between the part's markers. */
export function fillPage(path: string, parts: Record<string, string>): string {
  return Object.entries(parts).reduce(
    (page, [name, text]) => {
      const [begin, end] = [`<!-- ${name}: made by \`npm run generate\` -->`, `<!-- ${name}: end -->`]
      const [from, to] = [page.indexOf(begin), page.indexOf(end)]
      if (from === -1 || to < from) throw new Error(`${path} has lost its markers for ${name}`)
      return `${page.slice(0, from)}${begin}\n\n${text}\n\n${page.slice(to)}`
    },
    readFileSync(join(root, path), 'utf8')
  )
}
