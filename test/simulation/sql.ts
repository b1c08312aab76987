/**
 * What the service's statements mean: the only file that knows their SQL. One that is not known is an error, as the
 * model would otherwise prove nothing. It understands, in any layout,
 * - `insert into plants (…) select … from unnest($1::…[], …)`, `select $1::…` or `values ($1::…)`, with any
 *   `set_config('…', '…', true)`, `on conflict (id) do nothing`, or the `do update` that writes the same write again,
 *   and `returning` columns;
 * - `select … from plants … $n::bigint[]`: plants by their ids, of columns, of `case when … write_id … then column end`,
 *   which gives content only where the write id is among those of a parameter `$n::uuid[]`, and of
 *   `pg_logical_emit_message(true, …)`, which makes it a transaction that writes;
 * - `current_setting('transaction_read_only')` and `show`.
 */
import pg from 'pg'

/** A row of the table, by the names of its columns, and the transaction that has made it. */
export type Columns = Record<string, string | null>

/** What a statement returns of each row. */
export interface Output {
  readonly name: string
  /** The column; `message` and `is new` are none. */
  readonly from: string
  /** Only where the row is of a write that the statement names. */
  readonly isOwnOnly: boolean
}

interface Common {
  /** Settings that the statement makes for its transaction. */
  readonly settings: ReadonlyMap<string, string>
  readonly returning: readonly Output[]
}

/** What a statement asks for. */
export type Command =
  | (Common & {
      kind: 'insert'
      rows: Columns[]
      /** Where an id is taken: nothing, or the same write writes its row again. */
      onConflict: 'nothing' | 'write again'
    })
  | (Common & {
      kind: 'find'
      ids: string[]
      /** The writes whose rows' content it gives. */
      ownWrites: ReadonlySet<string>
      /** It writes to the log where it finds something. */
      writes: boolean
    })
  | (Common & { kind: 'readiness' })

const parseArray = pg.types.getTypeParser(1009 as never, 'text') as (text: string) => (string | null)[]
const names = (list: string) => list.split(/, ?/)

/** Splits at the commas that are in no brackets. */
function split(list: string): string[] {
  const parts = ['']
  let depth = 0
  for (const letter of list) {
    depth += letter === '(' ? 1 : letter === ')' ? -1 : 0
    if (letter === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] += letter
  }
  return parts.map((part) => part.trim())
}

const insert =
  /^insert into (?:\w+\.)?plants(?: as \w+)? \((?<into>[^)]+)\) (?:select .* from unnest\((?<arrays>[^)]+)\)|select (?<one>\$.+?) from|values \((?<values>.+?)\)).* on conflict \(id\) do (?<conflict>nothing|update set .*? where .*?write_id = excluded\.write_id) returning (?<returning>.+)$/
const find = /^select (?<returning>.+?) from (?=.*\bplants\b)(?=.*\$(?<ids>\d+)::bigint\[\]).*$/
const ownWrites = /\$(\d+)::uuid\[\]/
const readiness = /^(?:select current_setting\('transaction_read_only'\) as (?<as>\w+) |show (?<show>\w+)$)/

type Bind = (values: readonly (string | null)[]) => Command

const known = new Map<string, Bind>()

/** Reads a statement with its parameters. Throws for one that is not known. */
export function readStatement(sql: string, values: readonly (string | null)[]): Command {
  const bind = known.get(sql) ?? parse(sql.replace(/\s+/g, ' ').trim())
  known.set(sql, bind)
  return bind(values)
}

function readOutput(item: string): Output {
  const [, expression = item, alias] = /^(.*?)(?: as (\w+))?$/.exec(item) ?? []
  const column = /^(?:\w+\.)?(\w+)$/.exec(expression)?.[1]
  if (column) return { name: alias ?? column, from: column, isOwnOnly: false }
  if (/^pg_logical_emit_message\(true,/.test(expression))
    return { name: alias ?? 'pg_logical_emit_message', from: 'message', isOwnOnly: false }
  if (/^created_at = now\(\)$/.test(expression))
    return { name: alias ?? '?column?', from: 'is new', isOwnOnly: false }
  const own = /^case when .*\bwrite_id\b.* then (?:\w+\.)?(\w+) end$/.exec(expression)?.[1]
  if (own) return { name: alias ?? own, from: own, isOwnOnly: true }
  throw new Error(`an expression that is not modelled: ${item}`)
}

function parse(text: string): Bind {
  const settings = new Map(
    [...text.matchAll(/set_config\('(\w+)', '([^']*)', true\)/g)].map(([, name = '', value = '']) => [
      name,
      value
    ])
  )
  const asked = readiness.exec(text)?.groups
  if (asked) {
    const name = (asked.as ?? asked.show) as string
    return () => ({
      kind: 'readiness',
      settings,
      returning: [{ name, from: 'transaction_read_only', isOwnOnly: false }]
    })
  }
  const inserts = insert.exec(text)?.groups
  if (inserts) {
    const into = names(inserts.into as string)
    const casts = split((inserts.arrays ?? inserts.one ?? inserts.values) as string)
    const isInOrder = casts.every((cast, index) => cast.startsWith(`$${index + 1}::`))
    if (!isInOrder || casts.length !== into.length)
      throw new Error(`parameters that are not modelled: ${text}`)
    const returning = split(inserts.returning as string).map(readOutput)
    const onConflict = inserts.conflict === 'nothing' ? 'nothing' : 'write again'
    return (values) => {
      const columns = values.map((value) => (inserts.arrays ? parseArray(value as string) : [value]))
      const rows = (columns[0] ?? []).map((_, row) =>
        Object.fromEntries(into.map((name, index) => [name, columns[index]?.[row] ?? null]))
      )
      return { kind: 'insert', rows, onConflict, returning, settings }
    }
  }
  const finds = find.exec(text)?.groups
  if (!finds) throw new Error(`a statement that is not modelled: ${text}`)
  const returning = split(finds.returning as string)
    .filter((item) => !item.startsWith('set_config('))
    .map(readOutput)
  const writes = returning.some(({ from }) => from === 'message')
  const own = Number(ownWrites.exec(text)?.[1] ?? 0)
  const read = (values: readonly (string | null)[], number: number) =>
    number === 0 ? [] : (parseArray(values[number - 1] as string) as string[])
  return (values) => ({
    kind: 'find',
    ids: read(values, Number(finds.ids)),
    ownWrites: new Set(read(values, own)),
    returning,
    writes,
    settings
  })
}
