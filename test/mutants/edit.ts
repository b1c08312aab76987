/** Edits a source where names find the place: formatting, and the names of local variables, do not matter. */
import { stripTypeScriptTypes } from 'node:module'
import { type Node, parse } from 'acorn'

/**
 * An edit: `place: kind names 1/2 -> text`. The place is the name of a function, a method, a property or a constant; where
 * that is not enough, those around it come first, with dots between. In it, the node of this kind that mentions all the
 * names, and has no such node inside, becomes the text; 1/2 is the first of two. In the text, `$0` is the node's source,
 * and `$1`, `$2` … that of its children.
 */
const form = /^(?<place>\S+): (?<kind>\w+) ?(?<names>.*?)(?: (?<nth>\d)\/(?<count>\d))? -> (?<text>.+)$/s

/** Kinds of nodes, by the parent's type, its key for the node, and the node's own type (github.com/estree/estree). */
const kinds: Record<string, RegExp> = {
  argument: /^\w+ arguments /,
  assignment: / AssignmentExpression$/,
  await: / AwaitExpression$/,
  call: / CallExpression$/,
  for: / ForOfStatement$/,
  if: /^\w+ test /,
  operand: /^(Binary|Logical)Expression |^TemplateLiteral expressions /,
  return: /^ReturnStatement |^ArrowFunctionExpression body (?!BlockStatement)/,
  statement: / ExpressionStatement$/,
  // The names are those of what has the value.
  value: /^(VariableDeclarator init|Property value|AssignmentExpression right) /
}

const nameOfPlace = /^(FunctionDeclaration|VariableDeclarator) id |^\w*Class\w* id |^\w+ key /

/** A part of a source. */
export type Range = Pick<Node, 'start' | 'end'>

/** A node, and what it is to its parent. */
export interface Child {
  readonly node: Node
  readonly role: string
  readonly parent: Range
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'

/** Returns the children of a node, in the order of the source. */
const childrenOf = (parent: Range & { type?: string }): Child[] =>
  Object.entries(parent)
    .flatMap(([key, value]) =>
      [value as unknown]
        .flat()
        .filter(isNode)
        .map((node) => ({ node, role: `${parent.type} ${key} ${node.type}`, parent }))
    )
    .sort((one, other) => one.node.start - other.node.start)

/** Returns all that is in a node. */
export const within = (node: Range): Child[] =>
  childrenOf(node).flatMap((child) => [child, ...within(child.node)])

const nodesIn = (node: Range): Node[] => within(node).map((child) => child.node)

/** Returns the name of an identifier, with the # of a private one, or the value of a literal. */
function nameOf(node: Range) {
  const { type, name, value } = node as { type?: string; name?: unknown; value?: unknown }
  return type === 'PrivateIdentifier' ? `#${name}` : (name ?? value)
}

/** Returns the innermost nodes of a kind that mention these names. */
function findNodes(scope: Range, kind: string, names: string[]): Range[] {
  const found = within(scope).filter(({ node, role, parent }) => {
    if (!kinds[kind]?.test(role)) return false
    const named = kind === 'value' ? (childrenOf(parent)[0]?.node ?? node) : node
    const mentioned = [named, ...nodesIn(named)].map(nameOf)
    return names.every((name) => mentioned.includes(name))
  })
  const nodes = found.map(({ node }) => node)
  return nodes.filter((node) => !nodesIn(node).some((inner) => nodes.includes(inner)))
}

/** Returns where the source of a node has these words: SQL is mere text to JavaScript. */
const findWords = (source: string, { start, end }: Range, words: string): Range[] =>
  [...source.slice(start, end).matchAll(new RegExp(words, 'g'))].map(({ index }) => ({
    start: start + index,
    end: start + index + words.length
  }))

/** Returns the one that is meant. Throws if there are fewer or more than are expected. */
function pick<Found>(found: Found[], what: string, nth = '1', count = '1'): Found {
  if (found.length !== +count) throw new Error(`"${what}" is there ${found.length} times, not ${count}`)
  return found[+nth - 1] as Found
}

/** Parses a source of TypeScript. */
export const read = (source: string): Node =>
  parse(stripTypeScriptTypes(source), { ecmaVersion: 'latest', sourceType: 'module' })

/** Returns the variables of a program: those that it names, or its functions' parameters. */
const variablesOf = (program: Node, role = /^(?!.* (property|key) )/) =>
  within(program)
    .filter((each) => each.node.type === 'Identifier' && role.test(each.role))
    .map(({ node }) => String(nameOf(node)))

/** Returns the source with an edit. Throws if its place is not there once, or if its text names what the source does not. */
export function edit(source: string, change: string): string {
  const { place = change, kind = '', names = '', nth, count, text = '' } = form.exec(change)?.groups ?? {}
  const program = read(source)
  const scope = place.split('.').reduce<Range>((outer, name) => {
    const named = within(outer).filter(({ node, role }) => nameOfPlace.test(role) && nameOf(node) === name)
    return pick(named, name).parent
  }, program)
  const found =
    kind === 'words' ? findWords(source, scope, names) : findNodes(scope, kind, names.match(/\S+/g) ?? [])
  const node = pick(found, `${place}: ${kind} ${names}`, nth, count)
  const parts = [node, ...childrenOf(node).map((child) => child.node)]
  const becomes = text.replaceAll(/\$(\d)/g, (_, index) =>
    source.slice(parts[index]?.start, parts[index]?.end)
  )
  const edited = source.slice(0, node.start) + becomes + source.slice(node.end)
  const result = read(edited)
  const known = new Set([...variablesOf(program), ...variablesOf(result, / params /), 'arguments'])
  const unknown = variablesOf(result).filter((name) => !known.has(name) && !(name in globalThis))
  if (unknown.length > 0) throw new Error(`"${place}" has no ${unknown}`)
  return edited
}
