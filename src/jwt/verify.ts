/**
 * The tokens of an identity provider (JWT, RFC 7519): which of them are valid, and who their
 * callers are.
 */
import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { errors, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { Failure } from '../failures.ts'
import { addGauge } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import type { FindCaller, FindListed } from '../tokens.ts'
import { fetchKeys, followProvider, parseKeys } from './keys.ts'

/** The rules by which tokens are accepted. */
export interface JwtOptions {
  readonly issuer: string
  readonly audience: string
  /** The claim that names the caller. */
  readonly claim: string
  /** The JWKS, if it is in the configuration. */
  readonly keys: Secret<JWTVerifyGetKey> | undefined
  /** The URL of the JWKS; empty if the issuer's document names it. */
  readonly keysUrl: string
}

/**
 * The signature algorithms that are allowed. None of them is symmetric, because then the public key
 * could serve as the secret (RFC 8725, section 2.1).
 */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ')
/** What access tokens have as `typ`: RFC 9068, section 2.1, and what most providers write. */
const types = /^((application\/)?at\+jwt|jwt)$/i
/** How many seconds the clocks of the provider and of this machine may differ. */
const clockTolerance = 10
/** How many valid tokens are remembered. Each takes about 400 bytes. */
const mostRemembered = 20_000

/**
 * What is known of a valid token: its caller, and until when it is accepted, in ms since 1970, with
 * the tolerance of the clocks.
 */
interface Known {
  readonly caller: string
  readonly until: number
}

/**
 * The form of a caller's name in a claim: up to 255 ASCII characters, as in OpenID Connect.
 * Brackets are left out, because "(none)" and "(other)" are labels of metrics.
 */
const callerName = /^[A-Za-z0-9!#$%&'*+,\-./:;=?@^_|~]{1,255}$/
const callerNameRule = "1 to 255 letters, digits or any of !#$%&'*+,-./:;=?@^_|~"

/** What is wrong with a token, by the code of the error or by the name of the claim. */
const reasons: Record<string, string> = {
  ERR_JOSE_ALG_NOT_ALLOWED: 'is signed by an algorithm that is not allowed',
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: 'does not name its key',
  ERR_JWKS_NO_MATCHING_KEY: 'is signed by a key that its issuer does not publish',
  ERR_JWT_EXPIRED: 'has expired',
  iss: 'is of another issuer',
  aud: 'is for another audience',
  exp: 'has no time of expiry',
  nbf: 'is not valid yet'
}

/**
 * Makes an application accept the tokens of a provider, besides those that `findListed` knows. The
 * application's start waits for the keys, for up to `timeoutMs`. Returns the function that finds
 * the caller of a token. It throws InvalidToken, UnacceptableCaller or KeysUnavailable if there is
 * more to say than that no caller was found.
 */
export function acceptJwt(
  app: FastifyInstance,
  options: JwtOptions,
  timeoutMs: number,
  findListed: FindListed
): FindCaller {
  const { issuer, keys, keysUrl } = options
  /**
   * The valid tokens, by their SHA-256 digests; the oldest come first. To look up tokens in clear
   * text would take longer: V8 hashes long texts slowly.
   */
  let remembered = new Map<string, Known>()
  /**
   * The last remembered token that each connection has sent. On a connection of one caller, each
   * request has the token of the one before, and to compare the two takes a tenth of what the
   * digest takes. Where many callers share a connection, the time of the comparison could tell how
   * much of a guessed token is right, but it differs by some ns, behind a network and a queue.
   */
  let lastTokens = new WeakMap<object, Known & { token: string }>()
  // Forget all tokens, because the key of some may have been withdrawn. A token that is just being
  // verified is added to the former map, which nothing reads.
  const forget = () => {
    remembered = new Map()
    lastTokens = new WeakMap()
  }
  const load = () => fetchKeys(issuer, keysUrl)
  let findKey = keys?.value ?? followProvider(app, load, timeoutMs, forget)
  const isBroken = followSecret('AUTH_JWT_KEYS_FILE', keys, app, (text) => {
    findKey = parseKeys(text)
    forget()
  })
  const help = '1 while AUTH_JWT_KEYS_FILE is broken'
  addGauge(app.metrics, 'jwt_keys_file_error', help, () => +isBroken())

  async function verify(token: string, digest: string) {
    const memory = remembered
    const found = await check(token, findKey, options)
    if (found === undefined) return undefined
    if (memory.size >= mostRemembered) memory.delete(memory.keys().next().value as string)
    memory.set(digest, found)
    return found.caller
  }

  return (token, connection) => {
    // A JWT has dots. A token of the list may have some, too.
    if (!token.includes('.')) return findListed(token)
    const now = Date.now()
    const last = lastTokens.get(connection)
    if (last?.token === token && now < last.until) return last.caller
    const digest = hash('sha256', token)
    const known = remembered.get(digest)
    if (!known || now >= known.until) return findListed(token) ?? verify(token, digest)
    lastTokens.set(connection, { token, ...known })
    return known.caller
  }
}

/**
 * Checks a token by RFC 8725. Resolves with its caller and when it expires, in ms; or with
 * undefined if its form or its signature is bad. Rejects with a Failure if there is more to say.
 */
async function check(
  token: string,
  findKey: JWTVerifyGetKey,
  options: JwtOptions
): Promise<Known | undefined> {
  const { issuer, audience, claim } = options
  const rules = { algorithms, issuer, audience, clockTolerance, requiredClaims: ['exp'] }
  const verified = await jwtVerify(token, findKey, rules).catch(throwFailure)
  if (!verified) return undefined
  if (!types.test(verified.protectedHeader.typ ?? 'JWT')) throw invalid('is no access token')
  const { [claim]: caller, exp = 0 } = verified.payload
  if (caller === undefined) throw unacceptable(`the token has no claim ${claim}`)
  if (typeof caller !== 'string' || !callerName.test(caller))
    throw unacceptable(`the token's claim ${claim} must be ${callerNameRule}`)
  return { caller, until: (exp + clockTolerance) * 1_000 }
}

function throwFailure(error: Error): undefined {
  if (error instanceof Failure) throw error
  // The key is at fault: for example, it has fewer than 2,048 bits.
  if (!(error instanceof errors.JOSEError)) throw new Failure('KeysUnavailable', { cause: error })
  const ofClaim = error instanceof errors.JWTClaimValidationFailed
  const reason = reasons[ofClaim ? error.claim : error.code]
  if (reason) throw invalid(reason)
}

const invalid = (reason: string) =>
  new Failure('InvalidToken', { message: `the bearer token ${reason}` })

const unacceptable = (message: string) => new Failure('UnacceptableCaller', { message })
