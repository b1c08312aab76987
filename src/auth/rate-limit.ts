/** How many requests a second each caller may make of this process. */
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Counts a request for its caller, who must be authenticated, and refuses it beyond the limit. */
    limitRate: onRequestHookHandler
  }
}

interface Options {
  /** Requests a second for each caller; 0 is no limit. */
  perSecond: number
}

const windowMs = 1_000

/** What a caller has asked for since its window began. */
interface Window {
  readonly endsAt: number
  requests: number
}

export default fp<Options>(
  async (app, { perSecond }) => {
    if (perSecond === 0) {
      app.decorate('limitRate', (_request, _reply, done) => done())
      return
    }
    const windows = new Map<string, Window>()

    /** Returns the window of a caller. When it begins a new one, it drops all that are over. */
    function windowOf(caller: string): Window {
      const now = performance.now()
      const current = windows.get(caller)
      if (current && current.endsAt > now) return current
      for (const [name, { endsAt }] of windows) if (endsAt <= now) windows.delete(name)
      const fresh = { endsAt: now + windowMs, requests: 0 }
      windows.set(caller, fresh)
      return fresh
    }

    // The fields of the IETF draft "RateLimit header fields for HTTP", version 6, in seconds.
    app.decorate('limitRate', ({ caller }, reply, done) => {
      const window = windowOf(caller)
      window.requests++
      const left = Math.max(0, perSecond - window.requests)
      reply.headers({ 'ratelimit-limit': perSecond, 'ratelimit-remaining': left, 'ratelimit-reset': 1 })
      done(window.requests > perSecond ? new Failure('RateLimited') : undefined)
    })
  },
  { name: 'rate-limit', dependencies: ['auth'] }
)
