/** What clients see while operators update and scale the stack, and what of that stays: no errors, and all that was put into effect. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { docker, inspect, statusOf } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { until } from '../../support/until.ts'
import { startRegistry } from './registry.ts'
import { startStack } from './stack.ts'

const stack = await startStack(t)
const settings = () => readFile(join(stack.cwd, '.env'), 'utf8')
const setting = async (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(await settings())?.[1]
/** The replicas that run, each with the name of its image. */
async function replicas(): Promise<Record<string, string>> {
  const all = await inspect(...(await stack.running('api')))
  return Object.fromEntries(all.map(({ Id: id, Config: config }: Container) => [id, config.Image]))
}
interface Container {
  Id: string
  Config: { Image: string }
}

/** Starts an update in a process group of its own. */
function startUpdate(...args: string[]) {
  const env = { ...process.env, ...stack.env }
  const update = spawn('ops/rolling-update', args, {
    cwd: stack.cwd,
    env,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe']
  })
  const ended = Promise.all([text(update.stderr), once(update, 'exit')])
  return {
    /** Ends it, and returns what it has written. */
    async end(signal: NodeJS.Signals) {
      process.kill(-(update.pid as number), signal)
      const [stderr] = await ended
      // The kernel may take a moment to end the commands that it ran, which have the lock, too.
      const tryLock = () => execute('flock', ['--nonblock', 'ops', 'echo', 'free'], { cwd: stack.cwd })
      await until('the update has let go of its lock', tryLock)
      return stderr
    }
  }
}

t.test('`up` keeps what a scaling, an update and --back put into effect; no client fails', async (t) => {
  const load = await stack.startClients(t)
  const first = await replicas()
  await stack.operate('scale', ['3'])
  t.match(await replicas(), first)
  await stack.operate('rolling-update', [], { REVISION: 'next' })
  const updated = await replicas()
  const image = await setting('PLANT_STORE_IMAGE')
  t.match(image, new RegExp(`^${stack.image}:sources-[0-9a-f]{12}$`), 'the copy has no commit')
  t.strictSame(Object.values(updated), [image, image, image])
  for (const id of Object.keys(updated)) t.notOk(id in first)
  const [{ Config: config }] = await inspect(image as string)
  t.equal(config.Labels['org.opencontainers.image.revision'], 'next')
  await stack.compose('up', '--detach', '--wait')
  t.strictSame(await replicas(), updated)
  await stack.operate('rolling-update', ['--back'])
  t.strictSame(Object.values(await replicas()), [stack.image, stack.image, stack.image])
  await stack.operate('scale', ['2'])
  const last = await replicas()
  t.equal(Object.keys(last).length, 2)
  await stack.compose('up', '--detach', '--wait')
  t.strictSame(await replicas(), last)
  t.equal(
    await settings(),
    `COMPOSE_PROJECT_NAME=${stack.env.COMPOSE_PROJECT_NAME}\nREPLICAS=2\nPLANT_STORE_IMAGE=${stack.image}\nPLANT_STORE_PREVIOUS_IMAGE=${stack.image}\n`
  )
  await load.assertServed()
})

t.test('an update that is killed while it stops a replica is finished by the next one', async (t) => {
  const before = await stack.running('api')
  const load = await stack.startClients(t)
  const update = startUpdate(stack.image)
  await until(
    'one of the old replicas has gone',
    () => stack.running('api'),
    (ids) => ids.length > 2 && ids.filter((id) => before.includes(id)).length === 1
  )
  await update.end('SIGKILL')
  await stack.operate('rolling-update', [stack.image], { WATCH_SECONDS: '0' })
  const after = await stack.running('api')
  t.equal(after.length, 2)
  t.notOk(after.some((id) => before.includes(id)))
  await load.assertServed()
})

t.test('an update that is interrupted while it watches takes its replica back without a loss', async (t) => {
  const before = [await replicas(), await settings()]
  const load = await stack.startClients(t)
  const began = new Date().toISOString()
  const update = startUpdate(stack.image)
  await until('a new replica serves', async () => {
    const [id] = Object.keys(await replicas()).filter((id) => !(id in (before[0] as object)))
    return id && stack.serves(id, began)
  })
  await update.end('SIGINT')
  t.strictSame([await replicas(), await settings()], before)
  await load.assertServed()
})

t.test('an image whose creates fail is taken back at once, and the update shows why', async (t) => {
  const bad = `${stack.image}:bad`
  const script = `const path = 'dist/plants/statements.js', fs = require('fs')
    fs.writeFileSync(path, fs.readFileSync(path, 'utf8').replace('text: insert,', "text: writes.length ? insert + '(' : insert,"))`
  const name = `${stack.env.COMPOSE_PROJECT_NAME}-bad`
  await docker(['run', '--name', name, '--user=0:0', stack.image, 'node', '--eval', script])
  const original = ['USER 1000:1000', `CMD ${JSON.stringify((await inspect(stack.image))[0].Config.Cmd)}`]
  await docker(['commit', ...original.flatMap((line) => ['--change', line]), name, bad])
  await docker(['rm', name])
  const before = [await replicas(), await settings()]
  const load = await stack.startClients(t)
  await t.rejects(
    stack.operate('rolling-update', [bad], { WATCH_SECONDS: '600' }),
    /failures_total\{name="Internal"\} .*"code":"42601".*creates fail in a new replica, .*the old ones serve on/s
  )
  t.strictSame([await replicas(), await settings()], before)
  await load.succeed(200)
  const { operations, failed } = await load.stop()
  t.ok(failed.length < operations.length / 4, `${failed.length} of ${operations.length} failed`)
})

t.test('an update is refused before it starts anything', async (t) => {
  const before = [await replicas(), await settings()]
  const refuses = (message: RegExp, args: string[], env: Record<string, string> = {}) =>
    t.rejects(stack.operate('rolling-update', args, env), message)
  await refuses(/PLANT_STORE_IMAGE is exported as 'other', but the default or \.env says '\S+-api'/, [], {
    PLANT_STORE_IMAGE: 'other'
  })
  await refuses(/REPLICAS is exported as '5', but the default or \.env says '2'/, [], { REPLICAS: '5' })
  await refuses(/WRITE_LANES must be an integer/, [stack.image], { WRITE_LANES: 'none' })
  await refuses(/127\.0\.0\.1:1\/.*refused/, ['127.0.0.1:1/plant-store:1'])
  t.strictSame([await replicas(), await settings()], before)
})

t.test('replicas that cannot start are replaced', async (t) => {
  await stack.compose('kill', 'api') // the drain was seen above
  const up = ['compose', 'up', '--detach', '--no-deps', 'api']
  await docker(up, { cwd: stack.cwd, env: { ...stack.env, WRITE_LANES: 'none' } })
  const api = async () => inspect(...(await stack.compose('ps', '--all', '--quiet', 'api')).split('\n'))
  await until('none starts', api, (all) =>
    all.every(({ RestartCount: count }: { RestartCount: number }) => count > 0)
  )
  const broken = await replicas()
  await stack.operate('rolling-update', [stack.image], { WATCH_SECONDS: '0' })
  const whole = Object.keys(await replicas())
  t.equal(whole.length, 2)
  for (const id of whole) t.notOk(id in broken)
  t.equal(await statusOf(`${await stack.url()}/readyz`), 200)
})

t.test('the database is away for a while under load: replicas stay, and no client fails', async (t) => {
  const load = await stack.startClients(t)
  const since = new Date().toISOString()
  await stack.compose('stop', 'db')
  t.equal(await statusOf(`${await stack.url()}/readyz`), 200)
  await stack.compose('start', 'db')
  await load.assertServed()
  t.notMatch(await stack.compose('logs', '--since', since, 'balancer'), 'DOWN')
})

t.test('a tag that moves is pulled anew, and named by its digest; local tags stay', async (t) => {
  const registry = await startRegistry(t)
  const image = `${registry.host}/plant-store:1`
  const get = () => stack.operate('get-image', [image])
  const first = await registry.publish('first')
  t.equal(await get(), `${registry.host}/plant-store@${first}`)
  const [{ Id: id }] = await inspect(image)
  const second = await registry.publish('second')
  t.equal(await get(), `${registry.host}/plant-store@${second}`)
  t.equal((await inspect(image))[0].Id, id)
  t.equal(await setting('PLANT_STORE_IMAGE'), `${registry.host}/plant-store@${second}`)
  t.equal(await setting('PLANT_STORE_PREVIOUS_IMAGE'), `${registry.host}/plant-store@${first}`)
  await registry.close()
  await t.rejects(get(), /the registry cannot be reached, and .* is not what is in effect/)
  t.equal(await setting('PLANT_STORE_IMAGE'), `${registry.host}/plant-store@${second}`, 'nothing older')
})
