/** The commands of a page, which tests play as a reader would. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './process.ts'

/**
 * Returns the lines of code below a heading of a page of docs, such as `Update`, up to the next heading of any level. On these
 * pages, code is indented by four spaces or more, and text by less.
 */
export function commandsOf(page: string, heading: string): string[] {
  const text = readFileSync(join(root, 'docs', page), 'utf8')
  const section = text.split(new RegExp(`^#+ ${heading}\n`, 'm'))[1]?.split(/^#+ /m)[0] ?? ''
  const lines = section.match(/(?<=^ {4,})\S.*/gm) ?? []
  if (lines.length === 0) throw new Error(`docs/${page} has no commands below ${heading}`)
  return lines
}
