/** Markdown as the pages of docs/ use it, as HTML: paragraphs, lists, tables, commands, code and links. */

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** The id of a heading, as GitHub makes it. */
export const slugOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')

/** Returns the address of a link, or undefined for one that is only named: its text, and what it names. */
type Resolve = (target: string) => string | undefined

function toInline(text: string, resolve: Resolve): string {
  return escapeHtml(text.replace(/<a id="[^"]*"><\/a>/g, ''))
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<b>$1</b>')
    .replace(/\[([^\]]+)\]\(([^)]+)\)/g, (_, label: string, target: string) => {
      const address = resolve(target)
      return address ? `<a href="${address}">${label}</a>` : `${label} (${target.replace(/^(\.\.\/)+/, '')})`
    })
}

function toTable(rows: string[], resolve: Resolve): string {
  const cells = (row: string, tag: string) =>
    `<tr>${row
      .slice(1, -1)
      .split('|')
      .map((cell) => `<${tag}>${toInline(cell, resolve)}</${tag}>`)
      .join('')}</tr>`
  const [head = '', , ...others] = rows
  return `<table>\n${[cells(head, 'th'), ...others.map((row) => cells(row, 'td'))].join('\n')}\n</table>`
}

function toList(block: string, resolve: Resolve): string {
  const tag = /^\d/.test(block) ? 'ol' : 'ul'
  const items = block.split(/\n(?=- |\d+\. )/).map((item) => item.replace(/^(- |\d+\. )/, ''))
  return `<${tag}>\n${items.map((item) => `<li>${toInline(item, resolve)}</li>`).join('\n')}\n</${tag}>`
}

/** Returns a section of a page; its headings get an id. */
export function toHtml(markdown: string, resolve: Resolve, idOf: (heading: string) => string): string {
  const blocks = markdown
    .replace(/<!-- .*? -->/g, '')
    .replace(/^(#+ .*)$/gm, '\n$1\n')
    .split(/\n{2,}/)
  return blocks
    .filter((block) => block.trim() !== '')
    .map((whole) => {
      const block = whole.replace(/^\n+|\s+$/g, '')
      const [, level, heading = ''] = /^(#+) (.*)$/.exec(block) ?? []
      if (level)
        return `<h${level.length} id="${idOf(heading)}">${toInline(heading, resolve)}</h${level.length}>`
      if (block.startsWith('    ')) return `<pre>${escapeHtml(block.replace(/^ {4}/gm, ''))}</pre>`
      if (block.startsWith('|')) return toTable(block.split('\n'), resolve)
      if (/^(- |\d+\. )/.test(block)) return toList(block, resolve)
      return `<p>${toInline(block, resolve)}</p>`
    })
    .join('\n')
}
