/**
 * What the service's statements mean: the only file that knows their SQL. One that is not known is an error, as the
 * model would otherwise prove nothing. It understands, in any layout,
 * - `insert into plants (…) select … from unnest($1::…[], …)`, `select $1::…` or `values ($1::…)`, then
 *   `on conflict (id) do nothing`, or the `do update` that writes the same write again, and `returning` columns;
 * - `select … from plants …`: by `id = any ($n::bigint[])`, or joined with `unnest($1::bigint[]) as asked (id)`. Of
 *   columns, and of `pg_logical_emit_message(true, …)`, which makes it a transaction that writes;
 * - `set_config('…', …, true)` anywhere, of a text, a parameter, or a case that keeps what waits for the standby;
 * - `with … as (insert into plants … limit 0) select pg_logical_emit_message(true, …)`, which commits without a row;
 * - `show transaction_read_only` and `select … from plants limit 0`.
 */
import pg from 'pg'

/** A row of the table, by the names of its columns, and the transaction that has made it. */
export type Columns = Record<string, string | null>

/** What a statement returns of each row. */
export interface Output {
  readonly name: string
  readonly isBoolean: boolean
  /** It reads the content. */
  readonly reads: boolean
  value(row: Columns, now: string): string | null
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
      /** It writes to the log where it finds something. */
      writes: boolean
    })
  | (Common & { kind: 'commitNothing' })
  | (Common & { kind: 'readiness' })

type Values = readonly (string | null)[]
type Bind = (values: Values) => Command

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
const commitNothing =
  /^with \w+ as \(insert into plants \(.* limit 0(?: on conflict \(id\) do nothing)?\) select pg_logical_emit_message\(true,/
const find = /^select (?<returning>.+?) from (?<from>.*\bplants\b.*)$/
const byIds = /id = any ?\(\$(\d+)::bigint\[\]\)|unnest\(\$(\d+)::bigint\[\]\) as \w+ \(id\)/
const setting = /set_config\('(\w+)', (?:'([^']*)'|\$(\d+)|case when .*? then '(\w+)' else .*? end), true\)/g
const readiness = /^(?:show (?<as>\w+)|select .* from plants limit 0)$/

const known = new Map<string, Bind>()

/** Reads a statement with its parameters. Throws for one that is not known. */
export function readStatement(sql: string, values: Values): Command {
  const bind = known.get(sql) ?? parse(sql.replace(/\s+/g, ' ').replace(/\( /g, '(').trim())
  known.set(sql, bind)
  return bind(values)
}

const fromRow = (name: string, column: string): Output => ({
  name,
  isBoolean: false,
  reads: column === 'name',
  value: (row) => row[column] ?? null
})
const withoutContent = (name: string, isBoolean: boolean, value: Output['value']): Output => ({
  name,
  isBoolean,
  reads: false,
  value
})
const write = (is: boolean) => (is ? 't' : 'f')

function readOutput(item: string): Output {
  const [, expression = item, alias] = /^(.*?)(?: as (\w+))?$/.exec(item) ?? []
  const column = /^(?:\w+\.)?(\w+)$/.exec(expression)?.[1]
  if (column) return fromRow(alias ?? column, column)
  const name = alias ?? '?column?'
  if (/^pg_logical_emit_message\(true,/.test(expression)) return withoutContent(name, false, () => '0/0')
  if (expression === 'created_at = now()')
    return withoutContent(name, true, (row, now) => write(row.created_at === now))
  throw new Error(`an expression that is not modelled: ${item}`)
}

/** Reads parameters, in order and each cast, as rows of columns. */
function readRows(casts: string, columns: string[], text: string): (values: Values) => Columns[] {
  const parts = split(casts)
  const isInOrder = parts.every((cast, index) => cast.startsWith(`$${index + 1}::`))
  if (!isInOrder || parts.length !== columns.length)
    throw new Error(`parameters that are not modelled: ${text}`)
  const isArray = parts[0]?.endsWith('[]')
  return (values) => {
    const lists = columns.map((_, index) => {
      const value = values[index] ?? null
      return isArray ? parseArray(value as string) : [value]
    })
    return (lists[0] ?? []).map((_, row) =>
      Object.fromEntries(columns.map((name, index) => [name, lists[index]?.[row] ?? null]))
    )
  }
}

function parse(text: string): Bind {
  const made = [...text.matchAll(setting)]
  if (made.length !== text.split('set_config(').length - 1)
    throw new Error(`a setting that is not modelled: ${text}`)
  const settingsOf = (values: Values) =>
    new Map(
      made.map(([, name = '', value, number, otherwise]) => [
        name,
        value ?? otherwise ?? values[Number(number) - 1] ?? ''
      ])
    )
  const asked = readiness.exec(text)?.groups
  if (asked) {
    const { as } = asked
    const returning = as === undefined ? [] : [fromRow(as, 'transaction_read_only')]
    return (values) => ({ kind: 'readiness', settings: settingsOf(values), returning })
  }
  if (commitNothing.test(text))
    return (values) => ({ kind: 'commitNothing', settings: settingsOf(values), returning: [] })
  return parseInsert(text, settingsOf) ?? parseFind(text, settingsOf)
}

function parseInsert(text: string, settingsOf: (values: Values) => Common['settings']): Bind | undefined {
  const inserts = insert.exec(text)?.groups
  if (!inserts) return undefined
  const casts = (inserts.arrays ?? inserts.one ?? inserts.values) as string
  const rowsOf = readRows(casts, names(inserts.into as string), text)
  const returning = split(inserts.returning as string).map(readOutput)
  const onConflict = inserts.conflict === 'nothing' ? 'nothing' : 'write again'
  return (values) => ({
    kind: 'insert',
    rows: rowsOf(values),
    onConflict,
    returning,
    settings: settingsOf(values)
  })
}

function parseFind(text: string, settingsOf: (values: Values) => Common['settings']): Bind {
  const finds = find.exec(text)?.groups
  const [, any, joined] = byIds.exec(finds?.from ?? '') ?? []
  const parameter = any ?? joined
  if (!finds || !parameter) throw new Error(`a statement that is not modelled: ${text}`)
  const items = split(finds.returning as string)
  const returning = items.filter((item) => !item.startsWith('set_config(')).map(readOutput)
  const writes = items.some((item) => item.startsWith('pg_logical_emit_message('))
  return (values) => {
    const ids = parseArray(values[Number(parameter) - 1] as string) as string[]
    return { kind: 'find', ids, returning, writes, settings: settingsOf(values) }
  }
}
