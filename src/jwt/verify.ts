/** The tokens of an identity provider (JWT, RFC 7519): which are good, and who is their caller. */
import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { errors, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { Failure } from '../failures.ts'
import { addGauge } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import type { FindCaller } from '../tokens.ts'
import { fetchKeys, followProvider, parseKeys } from './keys.ts'

/** Which tokens are accepted. */
export interface JwtOptions {
  readonly issuer: string
  readonly audience: string
  /** The claim that names the caller. */
  readonly claim: string
  /** The JWKS, if it is configured; its URL, unless the issuer's document says it. */
  readonly keys: Secret<JWTVerifyGetKey> | undefined
  readonly keysUrl: string
}

/** No symmetric ones: a public key could serve as their secret (RFC 8725, section 2.1). */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ')
/** RFC 9068, section 2.1, and what most providers write. A logout+jwt is no access token. */
const types = /^((application\/)?at\+jwt|jwt)$/i
/** By how many seconds the clocks of the provider and of this machine may differ. */
const clockTolerance = 10
/** How many good tokens are remembered, at some 400 bytes each. */
const mostRemembered = 20_000

/** OpenID Connect has up to 255 ASCII characters. "(none)" and "(other)" are labels of metrics. */
const claimedName = /^[A-Za-z0-9!#$%&'*+,\-./:;=?@^_|~]{1,255}$/
const rule = "1 to 255 letters, digits or any of !#$%&'*+,-./:;=?@^_|~"

/** What is wrong with a token, by the code of the error, or by the claim. */
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
 * Makes an application accept the tokens of a provider, beside those that `findListed` knows. Its
 * start waits up to `timeoutMs` for the keys. Returns what finds the caller of a token: it throws
 * InvalidToken, UnacceptableCaller or KeysUnavailable if it can say more than that there is none.
 */
export function acceptJwt(
  app: FastifyInstance,
  options: JwtOptions,
  timeoutMs: number,
  findListed: FindCaller
): FindCaller {
  const { issuer, keys, keysUrl } = options
  /** The callers of good tokens and their ends in ms, by digests (SHA-256), the oldest first. */
  let remembered = new Map<string, { caller: string; until: number }>()
  // The key of some may be withdrawn. A token that is being verified goes into the former map.
  const forget = () => {
    remembered = new Map()
  }
  const fetchAll = () => fetchKeys(issuer, keysUrl)
  let findKey = keys?.value ?? followProvider(app, fetchAll, timeoutMs, forget)
  const isBroken =
    keys &&
    followSecret('AUTH_JWT_KEYS_FILE', keys, app, (text) => {
      findKey = parseKeys(text)
      forget()
    })
  const help = '1 while AUTH_JWT_KEYS_FILE is broken'
  addGauge(app.metrics, 'jwt_keys_file_error', help, () => +(isBroken?.() ?? false))

  async function verify(token: string, digest: string) {
    const memory = remembered
    const found = await check(token, findKey, options)
    if (found === undefined) return undefined
    if (memory.size >= mostRemembered) memory.delete(memory.keys().next().value as string)
    memory.set(digest, found)
    return found.caller
  }

  return (token) => {
    if (!token.includes('.')) return findListed(token)
    const digest = hash('sha256', token)
    const known = remembered.get(digest)
    if (known && Date.now() < known.until) return known.caller
    return findListed(token) ?? verify(token, digest)
  }
}

/**
 * Checks a token by RFC 8725. Resolves with its caller and its end in ms, or with undefined if its
 * form or its signature is not good. Rejects with a Failure that says more.
 */
async function check(token: string, findKey: JWTVerifyGetKey, options: JwtOptions) {
  const { issuer, audience, claim } = options
  const rules = { algorithms, issuer, audience, clockTolerance, requiredClaims: ['exp'] }
  const verified = await jwtVerify(token, findKey, rules).catch(throwFailure)
  if (!verified) return undefined
  if (!types.test(verified.protectedHeader.typ ?? 'JWT')) throw invalid('is no access token')
  const { [claim]: caller, exp = 0 } = verified.payload
  if (typeof caller === 'string' && claimedName.test(caller))
    return { caller, until: (exp + clockTolerance) * 1_000 }
  throw new Failure('UnacceptableCaller', { message: `the token's claim ${claim} must be ${rule}` })
}

function throwFailure(error: Error): undefined {
  if (error instanceof Failure) throw error
  // It is the key's fault, which has fewer than 2,048 bits for instance.
  if (!(error instanceof errors.JOSEError)) throw new Failure('KeysUnavailable', { cause: error })
  const ofClaim = error instanceof errors.JWTClaimValidationFailed
  const reason = reasons[ofClaim ? error.claim : error.code]
  if (reason) throw invalid(reason)
}

const invalid = (reason: string) =>
  new Failure('InvalidToken', { message: `the bearer token ${reason}` })
