/** One owner of all pools: a new URL, the measurements and the end concern each of them. */
import t from 'tap'
import { createDatabase, query } from '../../harness/postgres/database.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { Database } from '../../src/database/pool.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'

const url = await createDatabase(t)
const log = { warn() {} }
const limitMs = 60_000
const withName = (name: string) => ({ ...parseDatabaseUrl(url), options: `-c plant.name=${name}` })
const whoAmI = { text: `select current_setting('plant.name') as name` }

t.test('a new URL, the measurements and the end concern each pool', async (t) => {
  const database = new Database(withName('old'), log)
  const pools = [database.openPool({ size: 2, limitMs }), database.openPool({ size: 1, limitMs })]
  const names = async (all = pools) =>
    (await Promise.all(all.map((pool) => pool.query(whoAmI)))).map(({ rows }) => rows[0]?.name)
  t.strictSame(await names(), ['old', 'old'])
  t.strictSame(database.state, { size: 3, total: 2, idle: 2, waiting: 0, replacements: 0 })

  const next = withName('new')
  database.replaceOptions(next)
  t.equal(database.options, next)
  t.strictSame(await names(), ['new', 'new'])
  t.strictSame(await names([database.openPool({ size: 1, limitMs })]), ['new'], 'a pool opened later, too')

  pools[0]?.replaceAll(new Error('the server has changed'))
  t.equal(database.state.replacements, 1)
  await database.end()
  await until(
    'no connection is left',
    () =>
      query(
        url,
        `select from pg_stat_activity where application_name = 'plant-store' and datname = current_database()`
      ),
    hasLength(0)
  )
})
