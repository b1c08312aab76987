/** The stack of docker-compose.yml: it starts, creates through the balancer, and a rolling restart fails no request. */
import t from 'tap'
import { createPlant } from '../support/post.ts'
import { copyStack, docker } from '../support/stack.ts'
import { is, until } from '../support/until.ts'

const stack = await copyStack(t)

/** The health that Docker reports of a container, which asks /readyz. */
const healthOf = (id: string) => docker(['inspect', '--format={{.State.Health.Status}}', id])

t.test('a create through the balancer, and a restart of each replica under load', async (t) => {
  await stack.start('--wait')
  const created = await createPlant(stack.url, await stack.token(), { id: -1, name: 'Fern' })
  t.equal(created, '200 {"name":"Fern"}')
  t.strictSame(await stack.query('select name, tag from plants where id = -1'), ['Fern|'])

  const load = await stack.startClients(t)
  const replicas = await stack.running('api')
  t.equal(replicas.length, 2)
  for (const id of replicas) {
    await docker(['restart', id])
    await until('the replica is ready again', () => healthOf(id), is('healthy'))
    await load.succeed(200)
  }
  await load.assertServed()
})
