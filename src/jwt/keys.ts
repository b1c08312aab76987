/**
 * The public keys of an identity provider: a JWKS (RFC 7517, section 5) that is fetched and kept.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Counter } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'
import { Failure } from '../failures.ts'
import { addGauge, prefix } from '../metrics.ts'
import { StartupFault } from '../startup-fault.ts'

/** How often the keys are fetched. A key that is withdrawn stays valid until the next time. */
const refreshEveryMs = 60_000
/**
 * The shortest time between the beginnings of two attempts, so that made-up key ids do not flood
 * the provider. It is also the longest time of one attempt, which is then over before the next.
 */
const coolDownMs = 5_000
const retryAtStartMs = 500
/** How many requests may wait for keys. Each holds a connection, here and at the balancer. */
const mostWaiting = 64
/** How long keys serve while the provider is unavailable. Nearly all tokens expire earlier. */
const keptMs = 24 * 3_600_000
const mostCharacters = 2 ** 20
const theKeys = "the identity provider's keys"

/**
 * Returns whether nobody can change what a URL returns on its way: it must use https, or http on
 * this machine.
 */
export function isSafeUrl(text: string): boolean {
  const { protocol, hostname, username, password } = URL.parse(text) ?? {}
  const isLocal = /^(localhost|127\.[\d.]+|\[::1\])$/.test(`${hostname}`)
  return (protocol === 'https:' || (protocol === 'http:' && isLocal)) && !username && !password
}

/**
 * Reads a JWKS. Returns the function that finds a token's key. Throws a StartupFault if there is no
 * public key.
 */
export function parseKeys(text: string): JWTVerifyGetKey {
  try {
    // Ignore private keys and symmetric keys: a JWKS is public, so others know them.
    const keys = JSON.parse(text).keys.filter(
      ({ kty, d }: { kty: string; d?: string }) => /^(RSA|EC|OKP)$/.test(kty) && d === undefined
    )
    if (keys.length > 0) return createLocalJWKSet({ keys })
  } catch {}
  throw new StartupFault(['must be a JWKS with a public key, such as {"keys":[{"kty":"RSA",…}]}'])
}

/**
 * Fetches a JWKS from its URL, or from the one that the issuer's document names (OpenID Connect
 * Discovery 1.0, section 4).
 */
export async function fetchKeys(issuer: string, url: string): Promise<string> {
  const signal = AbortSignal.timeout(coolDownMs)
  if (url) return JSON.stringify(await fetchJson(url, signal))
  const documentUrl = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const { issuer: found, jwks_uri } = Object(await fetchJson(documentUrl, signal))
  if (found !== issuer) {
    // Show a difference such as a slash at the end, but neither a second line nor a long text.
    const isShort = typeof found === 'string' && /^[!-~]{1,200}$/.test(found)
    throw new Error(`${documentUrl} names another issuer${isShort ? `: ${found}` : ''}`)
  }
  if (!isSafeUrl(jwks_uri)) throw new Error(`${documentUrl} must have a jwks_uri with https`)
  return JSON.stringify(await fetchJson(jwks_uri, signal))
}

/** Fetches JSON of bounded size. Throws for a redirect, which could lead anywhere. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  try {
    const { status, body } = await fetch(url, { signal, redirect: 'manual' })
    let text = ''
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part
      if (text.length > mostCharacters) throw new Error(`more than ${mostCharacters} characters`)
    }
    if (status !== 200) throw new Error(`status ${status}`)
    return JSON.parse(text)
  } catch (error) {
    const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException
    throw new Error(`${url}: ${message || code}`)
  }
}

const noKeys: JWTVerifyGetKey = createLocalJWKSet({ keys: [] })

/**
 * Keeps the keys that `load` fetches up to date until the application closes. The application's
 * start waits for them, for up to `timeoutMs`. Calls `onChange` when they change. Returns the
 * function that finds a token's key. For an unknown key, it waits for newer keys; it rejects with
 * KeysUnavailable if they cannot be fetched.
 */
export function followProvider(
  app: FastifyInstance,
  load: () => Promise<string>,
  timeoutMs: number,
  onChange: () => void
): JWTVerifyGetKey {
  let text = ''
  let find = noKeys
  /** When the last attempt began, and when the last one that fetched keys did. */
  let triedAt = Number.NEGATIVE_INFINITY
  let knownAt = Number.NEGATIVE_INFINITY
  let attempt: Promise<Error | undefined> | undefined
  /** The message of the last attempt's error. It is logged only when it changes. */
  let logged: string | undefined
  let waiting = 0
  const ageHelp = `Time since ${theKeys} were fetched`
  const ageSeconds = () => (performance.now() - knownAt) / 1_000
  addGauge(app.metrics, 'jwt_keys_age_seconds', ageHelp, ageSeconds)
  const failedAttempts = new Counter({
    name: `${prefix}jwt_keys_failures_total`,
    help: `Attempts to fetch ${theKeys} that failed`,
    registers: [app.metrics]
  })

  /** Uses the keys of a text, or none if it is empty. */
  function use(next: string) {
    if (next === text) return
    find = next ? parseKeys(next) : noKeys
    text = next
    onChange()
  }

  /** Fetches the keys once. Resolves with the error if that fails. */
  async function tryNow(): Promise<Error | undefined> {
    const began = performance.now()
    triedAt = began
    try {
      use(await load())
      knownAt = began
      if (logged) app.log.info(`${theKeys} were fetched`)
      logged = undefined
      return undefined
    } catch (error) {
      failedAttempts.inc()
      if (began - knownAt > keptMs) use('')
      const { message: missing } = error as Error
      if (missing !== logged) app.log.warn({ missing }, `waiting for ${theKeys}`)
      logged = missing
      return error as Error
    }
  }

  /** Fetches the keys when the cool-down is over. All who ask before that share the attempt. */
  function refresh() {
    const restMs = Math.max(0, triedAt + coolDownMs - performance.now())
    attempt ??= sleep(restMs, undefined, { ref: false })
      .then(tryNow)
      .finally(() => (attempt = undefined))
    return attempt
  }

  const timer = setInterval(refresh, refreshEveryMs).unref()
  app.addHook('onClose', async () => clearInterval(timer))
  app.addHook('onReady', async () => {
    const deadline = performance.now() + timeoutMs
    for (let error = await tryNow(); error; error = await tryNow()) {
      const { message } = error
      if (performance.now() + retryAtStartMs >= deadline)
        throw new StartupFault([`${theKeys} cannot be fetched: ${message}`])
      await sleep(retryAtStartMs)
    }
  })
  return async (header, token) => {
    const askedAt = performance.now()
    for (;;) {
      try {
        return await find(header, token)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey) || knownAt >= askedAt) throw error
      }
      if (waiting >= mostWaiting) throw new Failure('KeysUnavailable')
      waiting++
      const cause = await refresh()
      waiting--
      if (cause) throw new Failure('KeysUnavailable', { cause })
      // The attempt may have begun before the token was asked for, so its keys may be too old: try
      // again.
    }
  }
}
