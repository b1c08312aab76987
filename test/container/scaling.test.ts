/** What clients see while the stack is scaled, and while its database restarts: nothing. */
import t from 'tap'
import { statusOf } from '../../dev/docker.ts'
import { startStack } from './stack.ts'

const stack = await startStack(t)

t.test('--scale api=4 under load: all four serve, and no client sees an error', async (t) => {
  const load = await stack.startClients(t)
  await stack.compose('up', '--detach', '--no-recreate', '--scale', 'api=4', '--wait')
  const replicas = await stack.running('api')
  t.equal(replicas.length, 4)
  const began = new Date().toISOString()
  for (const id of replicas) while (!(await stack.serves(id, began))) await load.succeed(100)
  await load.assertServed()
})

t.test('plain `up` goes back to two replicas under load: the drain loses no request', async (t) => {
  const load = await stack.startClients(t)
  await stack.compose('up', '--detach', '--wait')
  t.equal((await stack.running('api')).length, 2)
  await load.assertServed()
})

t.test(
  'the database is away for a while under load: replicas stay, and no client sees an error',
  async (t) => {
    const load = await stack.startClients(t)
    const since = new Date().toISOString()
    await stack.compose('stop', 'db')
    t.equal(await statusOf(`${await stack.url()}/readyz`), 200)
    await stack.compose('start', 'db')
    await load.assertServed()
    t.notMatch(await stack.compose('logs', '--since', since, 'balancer'), 'DOWN')
  }
)
