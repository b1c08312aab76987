/** Promise 6 across a release that adds a field: a keyed request is the same one, whichever of the two releases gets it. */
import { join, relative } from 'node:path'
import t from 'tap'
import { createDatabase, migrate, query } from '../support/postgres/database.ts'
import { migrateFile, root, serverFile } from '../support/process.ts'
import { applyRecipe } from '../support/recipe.ts'
import { failure, type Reply, success } from '../support/responses.ts'
import { keyed, type Service, startService } from '../support/service.ts'

/** Two releases. In the later one, plants have one more optional field, `height`. */
const { without, applied } = await applyRecipe(t, 'field')
const fileOf = (folder: string, file: string) => relative(root, join(folder, file))
const DATABASE_URL = await createDatabase(t)
await migrate(t, DATABASE_URL, fileOf(applied, migrateFile))
const [older, newer] = await Promise.all([
  startService(t, { DATABASE_URL }, { file: fileOf(without, serverFile) }),
  startService(t, { DATABASE_URL }, { file: fileOf(applied, serverFile) })
])

/** The other members of a request, and of a repeat that means the same. */
const repeats: [title: string, first: string, repeat: string][] = [
  ['no other member', '', ''],
  ['the new field', ',"height":12', ',"height":12'],
  ['the new field in another spelling', ',"height":12', ',"height":1.2e1'],
  [
    'the new field and an unknown one',
    ',"height":-3,"soil":{"pH":6.50,"of":["peat",1]}',
    ',"soil":{"of":["peat",1.0],"pH":65e-1},"height":-3'
  ],
  [
    'an unknown one that doubles would round',
    ',"serial":9007199254740993',
    ',"serial":9007199254740993.0'
  ],
  ['an unknown one, twice', ',"soil":1,"soil":null', ',"soil":null'],
  [
    'names of Object.prototype',
    ',"__proto__":{"a":1},"constructor":2',
    ',"constructor":2,"__proto__":{"a":1}'
  ]
]

/** The other members of a request, and of one that means something else. */
const others: [title: string, first: string, other: string][] = [
  ['another height', ',"height":12', ',"height":13'],
  ['no height', ',"height":12', ''],
  ['a height where there was none', '', ',"height":12'],
  [
    'a number that only doubles take for the same',
    ',"serial":9007199254740993',
    ',"serial":9007199254740992'
  ]
]

let lastId = 0
const bodyOf = (id: number, members: string) => `{"id":${id},"name":"Fern"${members}}`

const orders: [title: string, first: Service, second: Service][] = [
  ['the older release, then the newer one', older, newer],
  ['the newer release, then the older one', newer, older]
]

/** What a client of a release is told of a plant with these members, which it creates or repeats. */
const plantOf = (service: Service, members: string) => ({
  name: 'Fern',
  ...(service === newer &&
    /"height":/.test(members) && { height: JSON.parse(bodyOf(1, members)).height })
})
const replayOf = (reply: Reply): Reply => ({
  ...reply,
  headers: { ...reply.headers, 'idempotent-replayed': 'true' }
})

for (const [order, first, second] of orders) {
  for (const [title, members, repeated] of repeats)
    t.test(`${order}, ${title}: one plant, and the answer of a repeat`, async (t) => {
      const id = ++lastId
      t.strictSame(
        await first.post(bodyOf(id, members), keyed('a')),
        success(plantOf(first, members))
      )
      for (const service of [second, first])
        t.strictSame(
          await service.post(bodyOf(id, repeated), keyed('a')),
          replayOf(success(plantOf(service, repeated)))
        )
      t.strictSame(await query(DATABASE_URL, 'select name from plants where id = $1', [id]), [
        { name: 'Fern' }
      ])
    })
  for (const [title, members, changed] of others)
    t.test(`${order}, ${title}: 422`, async (t) => {
      const id = ++lastId
      t.strictSame(
        await first.post(bodyOf(id, members), keyed('a')),
        success(plantOf(first, members))
      )
      for (const service of [second, first])
        t.strictSame(await service.post(bodyOf(id, changed), keyed('a')), failure('ReusedKey'))
    })
}
