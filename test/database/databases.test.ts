/** One owner of all pools: a new URL, the measurements and the end concern each of them. */
import t from 'tap'
import { until } from '../../dev/until.ts'
import { Databases } from '../../src/database/pool.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { createDatabase, query } from '../support/database.ts'

const url = await createDatabase(t)
const log = { warn() {} }
const limitMs = 60_000
const withName = (name: string) => ({ ...parseDatabaseUrl(url), options: `-c plant.name=${name}` })
const whoAmI = { text: `select current_setting('plant.name') as name` }

t.test('a new URL, the measurements and the end concern each pool', async (t) => {
  const databases = new Databases(withName('old'), log)
  const pools = [databases.open({ size: 2, limitMs }), databases.open({ size: 1, limitMs })]
  const names = async (all = pools) =>
    (await Promise.all(all.map((pool) => pool.query(whoAmI)))).map(({ rows }) => rows[0]?.name)
  t.strictSame(await names(), ['old', 'old'])
  t.strictSame(databases.state, { size: 3, total: 2, idle: 2, waiting: 0, resets: 0 })

  const next = withName('new')
  databases.reconnect(next)
  t.equal(databases.connection, next)
  t.strictSame(await names(), ['new', 'new'])
  t.strictSame(await names([databases.open({ size: 1, limitMs })]), ['new'], 'a pool opened later, too')

  pools[0]?.reset(new Error('the server has changed'))
  t.equal(databases.state.resets, 1)
  await databases.end()
  await until(
    'no connection is left',
    () =>
      query(
        url,
        `select from pg_stat_activity where application_name = 'plant-store' and datname = current_database()`
      ),
    ({ length }) => length === 0
  )
})
