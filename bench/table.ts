/** The table of plants before a load: filled to a size, with what earlier loads have added removed. */
import { query } from '../test/support/postgres/query.ts'
import { migrate, ownProgram } from './server.ts'

/** How the ids of one plant and the next differ. */
export type Ids = 'growing' | 'random'

/** A table that was filled. */
export interface Filled {
  readonly rows: number
  readonly ids: Ids
  /** The pages of the table; what is added later is behind them, but for the room in the last one. */
  readonly pages: number
  readonly tableBytes: number
  readonly indexBytes: number
}

/** The least absolute value of wrk.lua's ids, and how many there are from it. */
const [leastId, idCount] = [1_000_000_000_000_000n, 8_007_198_999_999_999n]
/** It has no divisor in common with idCount, so that no id comes twice in the first 60 million rows. */
const stride = 137_438_953_481n
/** An index of random ids is this full after many inserts, as each page is split in the middle. */
const randomFill = 70

/** An expression for the id of row i. */
const idOf: Record<Ids, string> = {
  growing: `${leastId} + i`,
  random: `(case i % 2 when 0 then 1 else -1 end) * (${leastId} + i * ${stride} % ${idCount})`
}

/** Makes the service's own table in an empty database, and fills it. */
export async function fillTable(databaseUrl: string, rows: number, ids: Ids): Promise<Filled> {
  await migrate(ownProgram(), databaseUrl)
  if (rows > 0) {
    await query(databaseUrl, 'alter table plants drop constraint plants_pkey')
    await query(
      databaseUrl,
      `insert into plants (id, name, tag, write_id)
       select ${idOf[ids]}, 'Monstera', 'tropical', gen_random_uuid() from generate_series(1::bigint, ${rows}) as i`
    )
    const fillfactor = ids === 'random' ? `with (fillfactor = ${randomFill})` : ''
    await query(databaseUrl, `alter table plants add primary key (id) ${fillfactor}`)
    await query(databaseUrl, 'alter index plants_pkey reset (fillfactor)')
  }
  await query(databaseUrl, 'vacuum (freeze, analyze) plants')
  const [sizes] = await query(
    databaseUrl,
    `select pg_relation_size('plants')::float8 as "tableBytes", pg_relation_size('plants_pkey')::float8 as "indexBytes",
       (pg_relation_size('plants') / current_setting('block_size')::int)::int as pages`
  )
  return { rows, ids, ...sizes }
}

/** Removes what loads have added, and writes what is in memory to the disk, so that no load pays for an earlier one. */
export async function resetTable(databaseUrl: string, { rows, pages }: Filled): Promise<void> {
  if (rows === 0) await query(databaseUrl, 'truncate plants')
  else {
    await query(databaseUrl, `delete from plants where ctid >= '(${pages},0)'`)
    await query(databaseUrl, 'vacuum plants')
  }
  await query(databaseUrl, 'checkpoint')
}

/** Counts what loads have added, and may miss the rows in the room of the last page. */
export async function countAdded(databaseUrl: string, { pages }: Filled): Promise<number> {
  const sql = `select count(*)::int from plants where ctid >= '(${pages},0)'`
  const [{ count }] = await query(databaseUrl, sql)
  return count
}

/** Returns the id from which a load with growing ids begins; undefined for random ones. */
export async function firstId(databaseUrl: string, { ids }: Filled): Promise<bigint | undefined> {
  if (ids === 'random') return undefined
  const [{ id }] = await query(databaseUrl, 'select max(id)::text as id from plants')
  return (id === null ? leastId : BigInt(id)) + 1n
}

/** The rows of a vacuum that is measured. */
const vacuumedRows = 300_000

/** WAL bytes for each row of the first vacuum of new rows: before the next checkpoint, and after it. */
export async function measureVacuum(
  databaseUrl: string
): Promise<{ before: number; after: number }> {
  await query(
    databaseUrl,
    'create table plants_vacuumed (like plants including all) with (autovacuum_enabled = off)'
  )
  const walBytes = async () => {
    const [{ bytes }] = await query(
      databaseUrl,
      `select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`
    )
    return bytes
  }
  const fillAndVacuum = async (between: string) => {
    await query(databaseUrl, 'truncate plants_vacuumed')
    await query(databaseUrl, 'checkpoint')
    await query(
      databaseUrl,
      `insert into plants_vacuumed (id, name, tag, write_id)
       select i, 'Monstera', 'tropical', gen_random_uuid() from generate_series(1, ${vacuumedRows}) as i`
    )
    await query(databaseUrl, between)
    const began = await walBytes()
    await query(databaseUrl, 'vacuum plants_vacuumed')
    return ((await walBytes()) - began) / vacuumedRows
  }
  return { before: await fillAndVacuum('select'), after: await fillAndVacuum('checkpoint') }
}
