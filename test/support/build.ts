/** The application as production builds it, over a store in memory, to be asked by `inject`. */
import type { FastifyBaseLogger, InjectOptions } from 'fastify'
import { pino } from 'pino'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import type { PlantStore } from '../../src/plants/repository.ts'
import { createMemoryStore } from './memory-store.ts'
import { maskFields, type Reply } from './responses.ts'
import { headers, token } from './service.ts'
import type { Teardown } from './teardown.ts'

interface Given {
  /** Settings besides the tests' own. */
  env?: Record<string, string>
  store?: PlantStore
  logger?: FastifyBaseLogger
}

/** Builds an application, which is closed at teardown. Until it is ready, a test may add hooks and routes. */
export async function build(t: Teardown, { env, store = createMemoryStore(), logger }: Given = {}) {
  const settings = {
    HOST: '127.0.0.1',
    PORT: '0',
    METRICS_PORT: '0',
    AUTH_TOKENS: `tester:${token}`,
    ...env
  }
  const config = readConfig(settings, { hasStore: true })
  const app = await buildApp(config, { logger: logger ?? pino({ level: 'silent' }), store })
  t.teardown(() => app.close())
  return app
}

export type App = Awaited<ReturnType<typeof build>>

/** Sends a request without a socket, and returns the whole response with masked fields. */
export async function ask(app: App, request: InjectOptions): Promise<Reply> {
  const { statusCode: status, headers, body } = await app.inject(request)
  return { status, headers: maskFields(headers), body }
}

/** Sends a create of the caller `tester`: text as it stands, anything else as JSON. */
export const create = (app: App, body: unknown, fields: Record<string, string> = {}) =>
  ask(app, {
    method: 'POST',
    url: '/plants',
    headers: { ...headers, ...fields },
    payload: typeof body === 'string' ? body : JSON.stringify(body)
  })
