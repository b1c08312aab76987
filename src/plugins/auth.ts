/** Authentication: the bearer token of each request, its caller, and how many requests a second a caller may make. */
import bearerAuth from '@fastify/bearer-auth'
import rateLimit from '@fastify/rate-limit'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Failure, type FailureName } from '../failures.ts'
import { acceptJwt } from '../jwt/verify.ts'
import { addGauge } from '../metrics.ts'
import { followSecret } from '../secrets.ts'
import { type FindCaller, isTokenShaped, parseTokens } from '../tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Refuses a request without a valid token, or beyond its caller's rate, before any of its body is read. */
    authenticate: onRequestHookHandler
  }
  interface FastifyRequest {
    /** The name that the list or a claim gives to the request's token; empty until it is good. */
    caller: string
  }
}

/** More callers than can make a request in one second, so that none loses its count meanwhile. */
const mostCallersOfSecond = 50_000

export default fp<Config>(async (app, config) => {
  const { tokens, jwt, RATE_LIMIT: perSecond } = config
  let findListed: FindCaller = tokens?.value ?? (() => undefined)
  const isBroken =
    tokens &&
    followSecret('AUTH_TOKENS_FILE', tokens, app, (text) => {
      findListed = parseTokens(text)
    })
  addGauge(
    app.metrics,
    'tokens_file_error',
    '1 while AUTH_TOKENS_FILE is broken',
    () => +(isBroken?.() ?? false)
  )
  const findInList: FindCaller = (token) => findListed(token)
  const findCaller = jwt ? acceptJwt(app, jwt, config.STARTUP_TIMEOUT_MS, findInList) : findInList
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
      cache: mostCallersOfSecond,
      enableDraftSpec: true, // the IETF draft "RateLimit header fields for HTTP", version 6
      keyGenerator: ({ caller }) => caller,
      errorResponseBuilder: () => new Failure('RateLimited')
    })
  const checkRate = perSecond > 0 ? app.rateLimit() : undefined
  app.decorate('authenticate', (request, reply, done) => {
    verify(request, reply, (error) => {
      const isOfToken = String(Object(error).code).startsWith('FST_BEARER_AUTH')
      if (isOfToken) done(toAuthFailure(request.headers.authorization))
      else if (error) done(toLookUpFailure(error))
      else if (checkRate === undefined) done()
      else checkRate.call(app, request, reply).then(() => done(), done)
    })
  })
})

/** Returns the failure of a request without a valid bearer token, with its challenge (RFC 6750, section 3). */
function toAuthFailure(authorization = ''): Failure {
  const [scheme = '', ...rest] = authorization.split(' ')
  if (scheme.toLowerCase() !== 'bearer') return challenge('MissingToken')
  return isTokenShaped(rest.join(' ').trim())
    ? challenge('InvalidToken', ', error="invalid_token"')
    : challenge('MalformedToken', ', error="invalid_request"')
}

const challenge = (name: FailureName, code = '', message?: string) =>
  new Failure(name, {
    ...(message && { message }),
    headers: { 'www-authenticate': `Bearer realm="plant-store"${code}` }
  })

/** Returns the failure of a look-up: what it throws is no fault of the token, unless it says so. */
function toLookUpFailure(thrown: unknown): Failure {
  if (!(thrown instanceof Failure))
    return new Failure('Internal', { cause: thrown, outcome: 'none' })
  const { name, message } = thrown
  const code = `, error="invalid_token", error_description="${message}"`
  return name === 'InvalidToken' ? challenge(name, code, message) : thrown
}
