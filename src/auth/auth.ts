/** Authentication: the bearer token of each request, its caller, and how many requests a second a caller may make. */
import bearerAuth from '@fastify/bearer-auth'
import type { Registry } from '@prometheus-io/client'
import type { FastifyReply, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/metrics.ts'
import { type SecretFile, watchSecretFile } from '../secret-file.ts'
import { createRateLimit } from './rate-limit.ts'
import { isTokenShaped, parseTokens, type Tokens } from './tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Refuses a request without a valid token, or beyond its caller's rate, before any of its body is read. */
    authenticate: onRequestHookHandler
    /** Reads the file of tokens again, if there is one. */
    reloadTokens(): Promise<void>
  }
  interface FastifyRequest {
    /** The name of the request's token; empty until it is authenticated. */
    caller: string
  }
}

type Options = { tokens: Tokens; file?: SecretFile | undefined; registry: Registry; perSecond: number }

const realm = 'Bearer realm="plant-store"'

/** Watches the `file` that the tokens came from. `perSecond` limits each caller in this process; 0 is no limit. */
export default fp<Options>(
  async (app, { tokens: initial, file, registry, perSecond }) => {
    let tokens = initial
    const followed = watchSecretFile('AUTH_TOKENS_FILE', file, app.log, (text) => {
      tokens = parseTokens(text)
      return { tokens: tokens.size }
    })
    const help = '1 while AUTH_TOKENS_FILE is broken'
    addGauge(registry, 'tokens_file_error', help, () => +followed.isBroken())
    app.addHook('onClose', async () => followed.close())
    app.decorate('reloadTokens', followed.reload)
    app.decorateRequest('caller', '')
    await app.register(bearerAuth, {
      addHook: false,
      specCompliance: 'rfc6749', // the scheme's name in any case (RFC 9110, section 11.1)
      verifyErrorLogLevel: 'trace',
      keys: [],
      auth: (token, request) => {
        const caller = tokens.findCaller(token)
        if (caller === undefined) return false
        request.caller = caller
        request.connection?.trust()
        return true
      }
    })
    const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>
    const takeToken = perSecond > 0 ? createRateLimit(perSecond) : undefined
    app.decorate('authenticate', (request, reply, done) => {
      const { headers, connection } = request
      verify(request, reply, (error) => {
        if (error) return done(toAuthFailure(headers.authorization))
        connection?.trust()
        done(takeToken && checkRate(perSecond, takeToken(request.caller), reply))
      })
    })
  },
  { name: 'auth' }
)

/** Returns the failure and its challenge (RFC 6750, section 3): without an error code if no bearer token was sent. */
function toAuthFailure(authorization: string | undefined): Failure {
  const [scheme = '', ...rest] = (authorization ?? '').split(' ')
  if (scheme.toLowerCase() !== 'bearer') return new Failure('MissingToken', challenge(realm))
  if (!isTokenShaped(rest.join(' ').trim())) {
    return new Failure('MalformedToken', challenge(`${realm}, error="invalid_request"`))
  }
  return new Failure('InvalidToken', challenge(`${realm}, error="invalid_token"`))
}

const challenge = (value: string) => ({ headers: { 'www-authenticate': value } })

/**
 * Writes what is left of a caller's rate, as the IETF draft "RateLimit header fields for HTTP", version 6, has it. Returns the
 * failure where nothing was.
 */
function checkRate(perSecond: number, left: number, reply: FastifyReply): Failure | undefined {
  reply.headers({
    'ratelimit-limit': perSecond,
    'ratelimit-remaining': Math.max(0, left),
    'ratelimit-reset': 1 // In a second at most, the bucket is full again.
  })
  return left < 0 ? new Failure('RateLimited') : undefined
}
