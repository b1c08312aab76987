/** Authentication: the bearer token of each request, its caller, and how many requests a second a caller may make. */
import bearerAuth from '@fastify/bearer-auth'
import rateLimit from '@fastify/rate-limit'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Failure, type FailureName } from '../failures.ts'
import { addGauge } from '../metrics.ts'
import { followSecret } from '../secrets.ts'
import { isTokenShaped, parseTokens } from '../tokens.ts'

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

export default fp<Config>(async (app, { tokens, RATE_LIMIT: perSecond }) => {
  let findCaller = tokens.value
  const isBroken = followSecret('AUTH_TOKENS_FILE', tokens, app, (text) => {
    findCaller = parseTokens(text)
  })
  addGauge(app.metrics, 'tokens_file_error', '1 while AUTH_TOKENS_FILE is broken', () => +isBroken())
  app.decorateRequest('caller', '')
  await app.register(bearerAuth, {
    addHook: false,
    specCompliance: 'rfc6749', // the scheme's name in any case (RFC 9110, section 11.1)
    verifyErrorLogLevel: 'trace',
    keys: [],
    auth: async (token, request) => {
      request.caller = (await findCaller(token)) ?? ''
      return request.caller !== ''
    }
  })
  const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>
  if (perSecond > 0)
    await app.register(rateLimit, {
      global: false,
      max: perSecond,
      timeWindow: 1_000,
      enableDraftSpec: true, // the IETF draft "RateLimit header fields for HTTP", version 6
      keyGenerator: ({ caller }) => caller,
      errorResponseBuilder: () => new Failure('RateLimited')
    })
  const checkRate = perSecond > 0 ? app.rateLimit() : undefined
  app.decorate('authenticate', (request, reply, done) => {
    verify(request, reply, (error) => {
      // What fails while a token's caller is looked up is no fault of the token.
      const isOfToken = String(Object(error).code).startsWith('FST_BEARER_AUTH')
      if (isOfToken) done(toAuthFailure(request.headers.authorization))
      else if (error) done(new Failure('Internal', { cause: error, outcome: 'none' }))
      else if (checkRate === undefined) done()
      else checkRate.call(app, request, reply).then(() => done(), done)
    })
  })
})

/** Returns the failure of a request without a valid bearer token, with its challenge (RFC 6750, section 3). */
function toAuthFailure(authorization = ''): Failure {
  const [scheme = '', ...rest] = authorization.split(' ')
  const fail = (name: FailureName, code = '') =>
    new Failure(name, { headers: { 'www-authenticate': `Bearer realm="plant-store"${code}` } })
  if (scheme.toLowerCase() !== 'bearer') return fail('MissingToken')
  return isTokenShaped(rest.join(' ').trim())
    ? fail('InvalidToken', ', error="invalid_token"')
    : fail('MalformedToken', ', error="invalid_request"')
}
