/** The probes at the metrics' port: readiness fails until the service listens at its own port. */
import t from 'tap'
import { readConfig } from '../src/config.ts'
import { createBareApp } from '../src/http/bare-app.ts'
import { createLogger } from '../src/log.ts'
import admin from '../src/plugins/admin.ts'
import health from '../src/plugins/health.ts'
import { freePort } from './support/postgres/embedded-postgres.ts'
import { everyResponse, failure } from './support/responses.ts'
import { send } from './support/service.ts'

t.test('readiness', async (t) => {
  const METRICS_PORT = String(await freePort())
  const config = readConfig({
    DATABASE_URL: 'postgres://u@h/d',
    AUTH_TOKENS: 'some-secret-0123456789',
    METRICS_PORT
  })
  const app = await createBareApp(createLogger('silent'), config.connectionLimits)
  t.teardown(() => app.close())
  await app.register(health)
  await app.register(admin, config)
  await app.ready()
  const readiness = () => send(`http://127.0.0.1:${METRICS_PORT}/readyz`, { method: 'GET' })
  t.strictSame(await readiness(), failure('NotReady'))
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.strictSame(await readiness(), {
    status: 200,
    headers: everyResponse,
    body: '{"status":"ready"}'
  })
})
