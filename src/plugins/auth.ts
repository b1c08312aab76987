/**
 * Authentication: checks the bearer token of each request, finds its caller, and limits how many
 * requests a second a caller may make.
 */
import bearerAuth from '@fastify/bearer-auth'
import rateLimit from '@fastify/rate-limit'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Failure, type FailureName } from '../failures.ts'
import { acceptJwt } from '../jwt/verify.ts'
import { addGauge } from '../metrics.ts'
import { followSecret } from '../secrets.ts'
import { type FindListed, isTokenShaped, parseTokens } from '../tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Refuses a request that has no valid token, or whose caller exceeds its rate, before any of
     * the body is read.
     */
    authenticate: onRequestHookHandler
  }
  interface FastifyRequest {
    /**
     * The caller's name, from the list of tokens or from a claim. It is empty until the token has
     * been verified.
     */
    caller: string
  }
}

/**
 * This is more than the number of callers that can make a request within one second, so no caller's
 * count is dropped too early.
 */
const mostCallersOfSecond = 50_000

export default fp<Config>(async (app, config) => {
  const { tokens, jwt, RATE_LIMIT: perSecond } = config
  let findListed: FindListed = tokens?.value ?? (() => undefined)
  const isBroken = followSecret('AUTH_TOKENS_FILE', tokens, app, (text) => {
    findListed = parseTokens(text)
  })
  const help = '1 while AUTH_TOKENS_FILE is broken'
  addGauge(app.metrics, 'tokens_file_error', help, () => +isBroken())
  const findInList: FindListed = (token) => findListed(token)
  const findCaller = jwt ? acceptJwt(app, jwt, config.STARTUP_TIMEOUT_MS, findInList) : findInList
  app.decorateRequest('caller', '')
  await app.register(bearerAuth, {
    addHook: false,
    // The scheme's name may be written in any case (RFC 9110, section 11.1).
    specCompliance: 'rfc6749',
    verifyErrorLogLevel: 'trace',
    keys: [],
    auth: (token, request) => {
      const accept = (caller = '') => {
        request.caller = caller
        return caller !== ''
      }
      const found = findCaller(token, request.raw.socket)
      return found instanceof Promise ? found.then(accept) : accept(found)
    }
  })
  const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>
  if (perSecond > 0)
    await app.register(rateLimit, {
      global: false,
      max: perSecond,
      timeWindow: 1_000,
      cache: mostCallersOfSecond,
      // Send the header fields of the IETF draft "RateLimit header fields for HTTP", version 6.
      enableDraftSpec: true,
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

/**
 * Returns the failure of a request without a valid bearer token, with its challenge (RFC 6750,
 * section 3).
 */
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

/**
 * Returns the failure for what a look-up of a token has thrown. If it is not a Failure, the service
 * is at fault and not the token.
 */
function toLookUpFailure(thrown: unknown): Failure {
  if (!(thrown instanceof Failure))
    return new Failure('Internal', { cause: thrown, outcome: 'none' })
  const { name, message } = thrown
  const code = `, error="invalid_token", error_description="${message}"`
  return name === 'InvalidToken' ? challenge(name, code, message) : thrown
}
