/** What routes declare, compared with what they send. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { catalogue, type Entry } from '../../src/failures/catalogue.ts'
import { failuresOf } from '../../src/operation.ts'

/** Makes a test fail when a route sends a failure that it does not declare, or without the catalogue's header fields. */
export function checkDeclarations(t: Pick<Test, 'fail'>, app: FastifyInstance): void {
  app.addHook('onSend', ({ failure, method, operation, routeOptions }, reply, payload, done) => {
    if (failure) {
      const { scope, headers = {}, varyingFields = [], outcome, mayBeNone }: Entry = catalogue[failure.name]
      const only = { NotReady: /^\/readyz$/, RateLimited: /^\/docs\// }[failure.name as string]
      const ofOthers = only ? only.test(`${routeOptions.url}`) : scope?.includes('request')
      const isDeclared = operation ? failuresOf(operation).some(([name]) => name === failure.name) : ofOthers
      const sent = `${method} ${routeOptions.url} sends ${failure.name}`
      if (!isDeclared) t.fail(`${sent}, which it does not declare`)
      for (const field of [...Object.keys(headers), ...varyingFields]) {
        if (!reply.hasHeader(field)) t.fail(`${sent} without ${field}`)
      }
      const told = reply.getHeader('write-outcome')
      const expected = operation?.writes ? outcome : undefined
      if (told !== expected && !(expected && mayBeNone && told === 'none'))
        t.fail(`${sent} with another Write-Outcome`)
    }
    done(null, payload)
  })
}
