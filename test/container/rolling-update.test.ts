/** What clients see of an update of the stack, whole, killed or taken back: nothing. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { docker, inspect } from '../../dev/docker.ts'
import { execute } from '../../dev/execute.ts'
import { until } from '../../dev/until.ts'
import { startStack } from './stack.ts'

const stack = await startStack(t)

/** Asserts that an update gives up, and that these replicas are left. */
async function assertTakenBack(t: Test, update: Promise<unknown>, before: string[]) {
  await t.rejects(update, /the old ones serve on/)
  t.strictSame((await stack.running('api')).sort(), before.sort())
}

t.test('a rolling update under load: every replica is a new one, and no client sees an error', async (t) => {
  const before = await stack.running('api')
  const load = await stack.startClients(t)
  await stack.operate('rolling-update', [], { REVISION: 'next' })
  const after = await stack.running('api')
  t.equal(after.length, before.length)
  for (const { Id: id, Config: config } of await inspect(...after)) {
    t.notOk(before.includes(id))
    t.equal(config.Labels['org.opencontainers.image.revision'], 'next')
  }
  await load.assertServed()
})

t.test('an update that is killed while it stops a replica is finished by the next one', async (t) => {
  const before = await stack.running('api')
  const load = await stack.startClients(t)
  const env = { ...process.env, ...stack.env }
  const update = spawn('ops/rolling-update', { cwd: stack.cwd, env, detached: true, stdio: 'ignore' })
  const ended = once(update, 'exit')
  await until(
    'one of the old replicas has gone',
    () => stack.running('api'),
    (ids) => ids.length > 2 && ids.filter((id) => before.includes(id)).length === 1
  )
  process.kill(-(update.pid as number), 'SIGKILL')
  await ended
  // The kernel may take a moment to end the commands that it ran, which have the lock, too.
  const tryLock = () => execute('flock', ['--nonblock', 'ops', 'echo', 'free'], { cwd: stack.cwd })
  await until('the killed update has let go of its lock', tryLock)
  await stack.operate('rolling-update')
  const after = await stack.running('api')
  t.equal(after.length, 2)
  t.notOk(after.some((id) => before.includes(id)))
  await load.assertServed()
})

t.test('an update of broken replicas to an old image, which is here: none is built or pulled', async (t) => {
  const old = `${stack.image}-old`
  await docker(['tag', stack.image, old])
  t.teardown(() => docker(['image', 'rm', old]))
  const update = (env: Record<string, string>) => stack.operate('rolling-update', [], env)
  await t.rejects(update({ PLANT_STORE_IMAGE: `${stack.image}:unknown` }))
  const [{ Id: id }] = await inspect(old)
  const api = async () => inspect(...(await stack.compose('ps', '--all', '--quiet', 'api')).split('\n'))
  await stack.compose('kill', 'api') // the drain was seen above
  const up = ['compose', 'up', '--detach', '--no-deps', 'api']
  await docker(up, { cwd: stack.cwd, env: { ...stack.env, WRITE_LANES: 'none' } })
  await until('none starts', api, (all) =>
    all.every(({ RestartCount: count }: { RestartCount: number }) => count > 0)
  )
  await update({ PLANT_STORE_IMAGE: old, REVISION: 'another' })
  const images = (await api()).map(({ Image: image }: { Image: string }) => image)
  t.strictSame(images, [id, id])
  t.equal((await inspect(old))[0].Id, id)
})

t.test('an update that does not become ready is taken back', async (t) => {
  const before = await stack.running('api')
  const load = await stack.startClients(t)
  const update = stack.operate('rolling-update', [], { REVISION: 'broken', WRITE_LANES: 'none' })
  await assertTakenBack(t, update, before)
  await load.assertServed()
})

t.test(
  'an update with one replica that does not become ready takes the others back without a loss',
  async (t) => {
    const before = await stack.running('api')
    const load = await stack.startClients(t)
    const began = new Date().toISOString()
    // What begins now waits for a database that takes writes, until one replica is cut off.
    await stack.query('alter role plants_service set default_transaction_read_only = on')
    const update = stack.operate('rolling-update', [], { REVISION: 'half' })
    update.catch(() => {})
    const fresh = async () => (await stack.running('api')).filter((id) => !before.includes(id))
    const [good = '', bad = ''] = await until(
      'two new replicas run',
      fresh,
      (ids) => ids.length === before.length
    )
    await docker(['network', 'disconnect', `${stack.env.COMPOSE_PROJECT_NAME}_back`, bad])
    await stack.query('alter role plants_service reset default_transaction_read_only')
    await until('the good one serves', () => stack.serves(good, began))
    await docker(['kill', bad])
    await assertTakenBack(t, update, before)
    await load.assertServed()
  }
)
