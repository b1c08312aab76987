/** What a plant takes on disk, as docs/running.md counts it. */
import t from 'tap'
import { bytesPerPlant } from '../../dev/generated/sizing.ts'
import { createDatabase, query } from '../../harness/postgres/database.ts'

const count = 200_000

t.test('a plant of the benchmarks takes as many bytes, with its index, as the sizing says', async (t) => {
  const url = await createDatabase(t)
  await query(
    url,
    `insert into plants (id, name, tag, write_id)
     select ('x' || left(md5(n::text), 16))::bit(64)::bigint, 'Monstera', 'tropical', gen_random_uuid()
     from generate_series(1, $1) as n`,
    [count]
  )
  const [{ bytes }] = await query(url, "select pg_total_relation_size('plants')::int as bytes")
  const measured = bytes / count
  t.ok(Math.abs(measured / bytesPerPlant - 1) < 0.1, `${measured} bytes`)
})
