/** The stack of docker-compose.yml: it starts, creates through the balancer, and a rolling restart fails no request. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openProject } from '../support/compose.ts'
import { docker, root } from '../support/docker.ts'
import { assertRows, selectRows } from '../support/histories/history.ts'
import { startRivals } from '../support/histories/rivals.ts'
import { until } from '../support/until.ts'

/** Rows of the test's own id, which no client of the load has. */
const ownId = 9_223_372_036_854_775_807n

const name = `plant-store-test-${randomBytes(4).toString('hex')}`
// Another project's ports and settings must not be read from a checkout's .env.
const { compose, psql, url } = openProject(root, {
  COMPOSE_PROJECT_NAME: name,
  COMPOSE_ENV_FILES: '/dev/null',
  PORT: '0'
})
t.teardown(async () => {
  if (!t.passing()) t.comment(await compose('logs', '--tail=50'))
  await compose('down', '--volumes', '--timeout=5')
  await docker(['image', 'rm', '--force', `${name}-api`])
})

/** The health that Docker reports of a container, which asks /readyz. */
const healthOf = (id: string) => docker(['inspect', '--format={{.State.Health.Status}}', id])

t.test('a create through the balancer, and a restart of each replica under load', async (t) => {
  await compose('build')
  const token = await compose('run', '--rm', '-T', 'setup', 'dev')
  await compose('up', '--detach', '--wait')
  const address = await url('balancer', 3000)

  const response = await fetch(`${address}/plants`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: `{"id":${ownId},"name":"Fern","tag":"shade"}`
  })
  t.equal(`${response.status} ${await response.text()}`, '200 {"name":"Fern","tag":"shade"}')
  const own = `select name, tag from plants where id = ${ownId}`
  t.strictSame(await psql('db', 'plants', own), ['Fern|shade'])

  const load = startRivals({ urls: [address], token, clients: 16, pauseMs: 50 })
  t.teardown(() => load.stop())
  await load.succeed(200)
  const replicas = (await compose('ps', '--quiet', 'api')).split('\n')
  t.equal(replicas.length, 2)
  for (const id of replicas) {
    await docker(['restart', id])
    await until('the replica is ready again', async () => (await healthOf(id)) === 'healthy')
    await load.succeed(200)
  }
  const history = await load.stop()
  const rows = await psql('db', 'plants', selectRows())
  assertRows(
    t,
    rows.map((row) => JSON.parse(row)),
    history
  )
  t.strictSame(history.failed, [], 'no client saw an error')
})
