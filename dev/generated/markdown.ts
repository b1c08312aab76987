/** Small pieces of Markdown. */

export const notice = '<!-- Made by `npm run generate`; do not edit. -->'

/** Returns a table; cells must not have line breaks. */
export function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map((cells) => `|${cells.join('|')}|`)
  return lines.join('\n')
}

export const code = (text: string) => (text === '' ? '' : `\`${text}\``)
