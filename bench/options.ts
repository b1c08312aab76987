/** The command line of a benchmark: numbers by name, and --quick. */
import { parseArgs } from 'node:util'

/** Each option is a number, or a list of them. */
type Options = Record<string, number | number[]>

/**
 * Reads `--name 1` or `--name 1,2` for each name of `defaults`; with --quick, what is not given comes from `quick`.
 * Throws for an unknown name and for anything but non-negative numbers.
 */
export function readOptions<T extends Options>(defaults: T, quick: T): T & { isQuick: boolean } {
  const types = Object.keys(defaults).map((name) => [name, { type: 'string' }] as const)
  const { values } = parseArgs({ options: { ...Object.fromEntries(types), quick: { type: 'boolean' } } })
  const { quick: isQuick = false, ...given } = values as Record<string, string> & { quick?: boolean }
  const read = Object.entries(given).map(([name, text]) => [name, parse(name, text, defaults[name])])
  return { ...(isQuick ? quick : defaults), ...Object.fromEntries(read), isQuick }
}

function parse(name: string, text: string, example: Options[string] | undefined) {
  const numbers = text.split(',').map((part) => (/^\d+(\.\d+)?$/.test(part) ? Number(part) : Number.NaN))
  const isList = Array.isArray(example)
  if (numbers.includes(Number.NaN) || (!isList && numbers.length > 1)) {
    throw new Error(`--${name} must be ${isList ? 'numbers such as 1,8' : 'a number'}`)
  }
  return isList ? numbers : numbers[0]
}
