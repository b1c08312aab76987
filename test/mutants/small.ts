/** Small mutants: every change of one test, operator, number or statement, which nobody has chosen. */
import { type Child, type Range, read, within } from './edit.ts'

/** What a part of a source becomes. */
export interface Change extends Range {
  text: string
}

const opposites: Record<string, string> = {
  ...{ '<': '>=', '>': '<=', '<=': '>', '>=': '<' },
  ...{ '===': '!==', '!==': '===', '+': '-', '-': '+', '*': '/', '/': '*' }
}

/** The fields of those nodes that are changed (github.com/estree/estree). */
interface Parts {
  type: string
  left: Range
  right: Range
  operator: string
  value: unknown
}

/** Returns what a node can become. */
function textsFor({ node, role }: Child, textOf: (range: Range) => string): string[] {
  const { type, left, right, operator, value } = node as unknown as Parts
  if (/^(If|Conditional|While)\w* test /.test(role)) return ['true', 'false']
  if (type === 'LogicalExpression') return [textOf(left), textOf(right)]
  const opposite = type === 'BinaryExpression' && !/['`]/.test(textOf(node)) && opposites[operator]
  if (opposite) return [`${textOf(left)} ${opposite} ${textOf(right)}`]
  if (type === 'ExpressionStatement' && !/^(super|'use)/.test(textOf(node))) return [';']
  if (typeof value === 'number') return [value === 0 ? '1' : String(value * 2)]
  return typeof value === 'boolean' ? [String(!value)] : []
}

/** Returns the small mutants of a source of TypeScript, from its begin to its end. */
export function findSmall(source: string): Change[] {
  const textOf = ({ start, end }: Range) => source.slice(start, end)
  return within(read(source)).flatMap((child) =>
    textsFor(child, textOf).map((text) => ({ start: child.node.start, end: child.node.end, text }))
  )
}
