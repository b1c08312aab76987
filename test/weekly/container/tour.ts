/** The commands of a page as they stand there, and below each what it prints. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../support/docker.ts'

/** A command, and the lines that it prints, if they are told; "…" in them stands for anything. */
export interface Step {
  command: string
  output: string[]
}

/** Reads the indented lines of a section: a command each, or, after "# ", a line that the command above it prints. */
export function readSteps(page: string, heading: string): Step[] {
  const section = readFileSync(join(root, page), 'utf8').split(`\n${heading}\n`)[1]?.split(/\n#+ /)[0] ?? ''
  const steps: Step[] = []
  for (const line of section.split('\n')) {
    if (line.startsWith('    # ')) steps.at(-1)?.output.push(line.slice('    # '.length).trimEnd())
    else if (line.startsWith('    ')) steps.push({ command: line.trim(), output: [] })
  }
  return steps
}

/** Writes a Bash script that runs the steps in one shell and leaves what each prints in the file of its number. */
export function toScript(steps: Step[]): string {
  const lines = steps.map(({ command }, index) => `{ ${command}\n} >"$OUT/${index}"`)
  return ['set -euo pipefail', ...lines].join('\n')
}

/** Returns whether what a command printed is what the page says. */
export function isPrinted({ output }: Step, text: string): boolean {
  if (output.length === 0) return true
  const lines = text.split('\n').map((line) => line.trimEnd())
  while (lines.at(-1) === '') lines.pop()
  const pattern = (line: string) =>
    new RegExp(
      `^${line
        .split('…')
        .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
        .join('.+')}$`
    )
  return (
    lines.length === output.length &&
    output.every((line, index) => pattern(line).test(lines[index] as string))
  )
}
