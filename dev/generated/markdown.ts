/** Small pieces of Markdown. */

/** Returns a table; cells must not have line breaks. */
export function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map((cells) => `|${cells.join('|')}|`)
  return lines.join('\n')
}
