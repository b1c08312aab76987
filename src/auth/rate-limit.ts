/** How many requests a second each caller may make of this process. */
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Counts a request for its caller, who must be known, and refuses it beyond the limit. */
    limitRate: onRequestHookHandler
  }
}

interface Options {
  /** Requests a second for each caller; 0 is no limit. */
  perSecond: number
}

export default fp<Options>(
  async (app, { perSecond }) => {
    if (perSecond === 0) {
      app.decorate('limitRate', (_request, _reply, done) => done())
      return
    }
    // Loaded only when it is on.
    await app.register(import('@fastify/rate-limit'), {
      global: false,
      max: perSecond,
      timeWindow: 1_000,
      enableDraftSpec: true,
      keyGenerator: ({ caller }) => caller,
      errorResponseBuilder: () => new Failure('RateLimited')
    })
    app.decorate('limitRate', app.rateLimit())
  },
  { name: 'rate-limit', dependencies: ['auth'] }
)
