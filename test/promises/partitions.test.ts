/** The SQL of docs/capacity.md that partitions the table by ranges of ids, played under a load. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { assertNoErrors } from '../support/histories/history.ts'
import { startRivals } from '../support/histories/rivals.ts'
import { root } from '../support/process.ts'
import { failure, replay, success } from '../support/responses.ts'
import { keyed, startService, token } from '../support/service.ts'

const page = readFileSync(join(root, 'docs/capacity.md'), 'utf8')
const blocks = [...page.matchAll(/```sql\n(.*?)```/gs)].map(([, sql = '']) => sql)

const internal = failure('Internal')
/** An id of each partition that the page makes. */
const [inFirst, inSecond, inThird] = [-1, 2_000_000_000, 4_000_000_000]

t.test('a table is partitioned, extended and archived while it is in use', async (t) => {
  t.equal(blocks.length, 4, 'the page has as many steps as this test')
  const [bound = '', convert = '', extend = '', archive = ''] = blocks
  const service = await startService(t)
  const load = startRivals({ urls: [service.url], token, clients: 12 })
  t.teardown(() => load.stop())
  await load.succeed(40)
  for (const sql of [bound, convert, extend]) {
    await service.rows(sql)
    await load.succeed(40)
  }
  await assertNoErrors(t, service.databaseUrl, await load.stop())

  const first = { id: inFirst, name: 'n' }
  t.match(await service.post(first, keyed('k')), success({ name: 'n' }))
  t.match(await service.post(first, keyed('k')), replay({ name: 'n' }))
  for (const id of [inSecond, inThird])
    t.match(await service.post({ id, name: 'n' }), success({ name: 'n' }), `a create of ${id}`)
  const placed = `select tableoid::regclass::text as partition from plants where id = any($1) order by id`
  t.strictSame(
    (await service.rows(placed, [[inFirst, inSecond, inThird]])).map(({ partition }) => partition),
    ['plants_0', 'plants_1', 'plants_2']
  )

  await service.rows(archive)
  t.match(await service.post(first, keyed('k')), internal, 'an archived plant is not created again')
  t.match(await service.post({ id: 1, name: 'n' }), internal, 'nor is another with its id')
  t.match(await service.post({ id: inThird + 1, name: 'n' }), success({ name: 'n' }))
  t.strictSame(await service.rows('select from plants where id < $1', [inSecond]), [])
})
