/** What the service's statements mean. One that is not known is an error: the model would otherwise prove nothing. */
import pg from 'pg'

/** A row of the table, by the names of its columns. */
export type Columns = Record<string, string | null>

/** What a statement asks for. */
export type Command =
  | {
      kind: 'insert'
      rows: Columns[]
      /** Where an id is taken: nothing, or the same write writes its row again. */
      onConflict: 'nothing' | 'write again'
      returning: string[]
      lockTimeoutMs: number
    }
  | {
      kind: 'find'
      ids: string[]
      returning: string[]
      /** It writes to the log where it finds something. */
      writes: boolean
    }
  | { kind: 'readiness' }

const parseArray = pg.types.getTypeParser(1009 as never, 'text') as (text: string) => (string | null)[]
const names = (list: string) => list.split(', ')

const many =
  /^insert into plants \((?<into>[^)]+)\) select \k<into> from unnest\((?<casts>[^)]+)\) as new \(\k<into>\), (?<rest>.*)$/
const one = /^insert into plants \((?<into>[^)]+)\) select (?<casts>\$.+?) from (?<rest>set_config.*)$/
const tail =
  /^set_config\('lock_timeout', '(?<ms>\d+)ms', true\) on conflict \(id\) do (?:(?<nothing>nothing)|update set write_id = excluded\.write_id, created_at = case plants\.created_at when excluded\.created_at then \(plants\.created_at at time zone 'UTC' - interval '1 microsecond'\) at time zone 'UTC' else plants\.created_at end where plants\.write_id = excluded\.write_id) returning (?<returning>.*?)(?<isNew>, created_at = now\(\) as is_new)?$/
const find =
  /^select (?<returning>[a-z_, ]+?)(?<message>, pg_logical_emit_message\(true, 'plant-store', ''\))? from plants where id = any \(\$1::bigint\[\]\)$/
const readiness =
  /^select current_setting\('transaction_read_only'\) as read_only from \(values \(1\)\) as one left join/

type Bind = (values: readonly (string | null)[]) => Command

const known = new Map<string, Bind>()

/** Reads a statement with its parameters. Throws for one that is not known. */
export function readStatement(sql: string, values: readonly (string | null)[]): Command {
  const bind = known.get(sql) ?? parse(sql.replace(/\s+/g, ' ').trim())
  known.set(sql, bind)
  return bind(values)
}

function parse(text: string): Bind {
  if (readiness.test(text)) return () => ({ kind: 'readiness' })
  const found = find.exec(text)?.groups
  if (found) {
    const writes = found.message !== undefined
    const returning = [...names(found.returning as string), ...(writes ? ['pg_logical_emit_message'] : [])]
    return ([ids]) => ({ kind: 'find', ids: parseArray(ids as string) as string[], returning, writes })
  }
  const insert = (many.exec(text) ?? one.exec(text))?.groups
  const end = tail.exec(insert?.rest ?? '')?.groups
  if (!insert || !end) throw new Error(`a statement that is not modelled: ${text}`)
  const into = names(insert.into as string)
  const casts = names(insert.casts as string)
  const isInOrder = casts.every((cast, index) => cast.startsWith(`$${index + 1}::`))
  if (!isInOrder || casts.length !== into.length) throw new Error(`parameters that are not modelled: ${text}`)
  const isArray = casts[0]?.endsWith('[]')
  const returning = [...names(end.returning as string), ...(end.isNew ? ['is_new'] : [])]
  return (values) => {
    const columns = values.map((value) => (isArray ? parseArray(value as string) : [value]))
    const rows = (columns[0] ?? []).map((_, row) =>
      Object.fromEntries(into.map((name, index) => [name, columns[index]?.[row] ?? null]))
    )
    const onConflict = end.nothing ? 'nothing' : 'write again'
    return { kind: 'insert', rows, onConflict, returning, lockTimeoutMs: Number(end.ms) }
  }
}
