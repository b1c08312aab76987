/** What routes declare, held against what they send. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { catalogue, type Entry } from '../../src/failures/catalogue.ts'

/** Makes a test fail when a route sends a failure that it does not declare, or without the catalogue's header fields. */
export function checkDeclarations(t: Pick<Test, 'fail'>, app: FastifyInstance): void {
  app.addHook('onSend', ({ failure, method, routeOptions }, reply, payload, done) => {
    if (failure) {
      const { scope, headers = {}, fields = [] }: Entry = catalogue[failure.name]
      const isDeclared = scope !== undefined || routeOptions.config.failures?.includes(failure.name)
      const sent = `${method} ${routeOptions.url} sends ${failure.name}`
      if (!isDeclared) t.fail(`${sent}, which it does not declare`)
      for (const field of [...Object.keys(headers), ...fields]) {
        if (!reply.hasHeader(field)) t.fail(`${sent} without ${field}`)
      }
    }
    done(null, payload)
  })
}
