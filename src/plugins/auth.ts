/** Authentication: the bearer token of each request, its caller, and how many requests a second a caller may make. */
import bearerAuth from '@fastify/bearer-auth'
import type { Registry } from '@prometheus-io/client'
import type { FastifyReply, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, type FailureName } from '../failures.ts'
import { addGauge } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import { isTokenShaped, parseTokens, type Tokens } from '../tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Refuses a request without a valid token, or beyond its caller's rate, before any of its body is read. */
    authenticate: onRequestHookHandler
  }
  interface FastifyRequest {
    /** The name that the configuration gives to the request's token; empty until the request is authenticated. */
    caller: string
  }
}

interface Options {
  /** If they came from a file, it is followed. */
  tokens: Secret<Tokens>
  registry: Registry
  /** How many requests a second each caller may make in this process; 0 is no limit. */
  perSecond: number
}

export default fp<Options>(
  async (app, { tokens: secret, registry, perSecond }) => {
    let tokens = secret.value
    const followed = followSecret('AUTH_TOKENS_FILE', secret.file, app.log, (text) => {
      tokens = parseTokens(text)
      return { tokens: tokens.size }
    })
    addGauge(registry, 'tokens_file_error', '1 while AUTH_TOKENS_FILE is broken', () => +followed.isBroken())
    app.addHook('onClose', async () => followed.close())
    app.decorateRequest('caller', '')
    await app.register(bearerAuth, {
      addHook: false,
      specCompliance: 'rfc6749', // the scheme's name in any case (RFC 9110, section 11.1)
      verifyErrorLogLevel: 'trace',
      keys: [],
      auth: async (token, request) => {
        const caller = await tokens.findCaller(token)
        if (caller === undefined) return false
        request.caller = caller
        return true
      }
    })
    const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>
    const takeRequest = perSecond > 0 ? createRateLimit(perSecond) : undefined
    app.decorate('authenticate', (request, reply, done) => {
      verify(request, reply, (error) => {
        // What fails while a token's caller is looked up is no fault of the token.
        const isOfToken = (error as { code?: string } | undefined)?.code?.startsWith('FST_BEARER_AUTH')
        if (error) done(isOfToken ? toAuthFailure(request.headers.authorization) : error)
        else done(takeRequest && checkRate(perSecond, takeRequest(request.caller), reply))
      })
    })
  },
  { name: 'auth' }
)

/** Returns the failure of a request without a valid bearer token, with its challenge (RFC 6750, section 3). */
function toAuthFailure(authorization = ''): Failure {
  const [scheme = '', ...rest] = authorization.split(' ')
  const fail = (name: FailureName, code = '') =>
    new Failure(name, { headers: { 'www-authenticate': `Bearer realm="plant-store"${code}` } })
  if (scheme.toLowerCase() !== 'bearer') return fail('MissingToken')
  const isShaped = isTokenShaped(rest.join(' ').trim())
  return isShaped
    ? fail('InvalidToken', ', error="invalid_token"')
    : fail('MalformedToken', ', error="invalid_request"')
}

/**
 * Makes token buckets, one for each caller, that hold `perSecond` requests and gain as many in a second. So a caller that
 * sends all at once, once a second, is served, and in any one second at most `2 * perSecond - 1` requests are. Returns a
 * function that takes a request from a caller's bucket: it returns how many whole ones are left, or undefined if there was
 * none to take. `clock.now` returns the time in ms.
 */
export function createRateLimit(perSecond: number, clock: { now(): number } = performance) {
  /** In thousandths of a request: a bucket gains `perSecond` of them in a millisecond, so whole milliseconds are added exactly. */
  const buckets = new Map<string, { level: number; at: number }>()
  return (caller: string): number | undefined => {
    const now = clock.now()
    const { level: before, at } = buckets.get(caller) ?? { level: 1_000 * perSecond, at: now }
    const level = Math.min(1_000 * perSecond, before + (now - at) * perSecond)
    const isServed = level >= 1_000
    buckets.set(caller, { level: isServed ? level - 1_000 : level, at: now })
    return isServed ? Math.floor(level / 1_000) - 1 : undefined
  }
}

/**
 * Writes how many requests a caller has left, by the IETF draft "RateLimit header fields for HTTP", version 6. Returns the
 * failure of a request for which none was left.
 */
function checkRate(perSecond: number, left: number | undefined, reply: FastifyReply): Failure | undefined {
  // In a second at most, the bucket is full again.
  reply.headers({ 'ratelimit-limit': perSecond, 'ratelimit-remaining': left ?? 0, 'ratelimit-reset': 1 })
  return left === undefined ? new Failure('RateLimited') : undefined
}
