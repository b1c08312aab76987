/**
 * The public keys of an identity provider: a JWKS (RFC 7517, section 5) that is fetched and kept.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Counter, type Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'
import { Failure } from '../failures.ts'
import { addGauge, prefix } from '../metrics.ts'
import { StartupFault } from '../startup-fault.ts'

/**
 * How often the keys are fetched. A key that the provider withdraws stays valid until the next
 * time.
 */
const refreshEveryMs = 60_000
/**
 * The shortest time between two attempts. Without it, tokens with made-up key ids could flood the
 * provider.
 */
const coolDownMs = 5_000
const retryAtStartMs = 500
/**
 * How many requests may wait for keys. Each of them holds a connection, here and at the load
 * balancer.
 */
const mostWaiting = 64
/**
 * How long keys stay in use while the provider is unavailable. Nearly all tokens expire earlier.
 */
const keptMs = 24 * 3_600_000
const mostBytes = 2 ** 20
/** What a message may quote of a provider's document: an issuer that was mistyped, for example. */
const visibleText = /^[\x21-\x7e]{1,200}$/

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
    const shown = visibleText.test(found ?? '') ? `the issuer ${found}` : 'another issuer'
    throw new Error(`${documentUrl} names ${shown} instead of ${issuer}`)
  }
  if (!isSafeUrl(jwks_uri)) throw new Error(`${documentUrl} must have a jwks_uri with https`)
  return JSON.stringify(await fetchJson(jwks_uri, signal))
}

/** Fetches JSON of bounded size. Throws for a redirect, which could lead anywhere. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  try {
    const { status, body } = await fetch(url, { signal, redirect: 'manual' })
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of body ?? []) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > mostBytes) throw new Error(`more than ${mostBytes} bytes`)
    }
    if (status !== 200) throw new Error(`status ${status}`)
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch (error) {
    const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException
    throw new Error(`${url}: ${message || code}`)
  }
}

/**
 * Adds the metrics of the keys: their age, and the counter of failed attempts, which it returns.
 */
function addKeyMetrics(registry: Registry, ageMs: () => number): Counter {
  const ageHelp = "Time since the identity provider's keys were fetched"
  addGauge(registry, 'jwt_keys_age_seconds', ageHelp, () => ageMs() / 1_000)
  return new Counter({
    name: `${prefix}jwt_keys_failures_total`,
    help: "Attempts to fetch the identity provider's keys that failed",
    registers: [registry]
  })
}

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
  let text: string | undefined
  let find: JWTVerifyGetKey | undefined
  /**
   * When the last attempt began, and when the last successful one did. The keys are from that time.
   */
  let triedAt = Number.NEGATIVE_INFINITY
  let knownAt = Number.NEGATIVE_INFINITY
  let attempt: Promise<Error | undefined> | undefined
  /** The message of the last attempt's error. It is logged only when it changes. */
  let logged: string | undefined
  let waiting = 0
  const failedAttempts = addKeyMetrics(app.metrics, () => performance.now() - knownAt)

  /** Uses the keys of a text, or none. */
  function use(next: string | undefined) {
    if (next === text) return
    find = next === undefined ? undefined : parseKeys(next)
    text = next
    onChange()
  }

  /** Fetches the keys once. Resolves with the error if that fails. */
  async function tryNow(): Promise<Error | undefined> {
    const began = performance.now()
    triedAt = began
    const error: Error | undefined = await load()
      .then(use)
      .catch((thrown) => thrown)
    if (!error) knownAt = began
    else failedAttempts.inc()
    if (began - knownAt > keptMs) use(undefined)
    const missing = error?.message
    const keys = "the identity provider's keys"
    if (error && missing !== logged) app.log.warn({ missing }, `waiting for ${keys}`)
    if (!error && logged) app.log.info(`${keys} were fetched`)
    logged = missing
    return error
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
        throw new StartupFault([`the identity provider's keys cannot be fetched: ${message}`])
      await sleep(retryAtStartMs)
    }
  })
  return async (header, token) => {
    const askedAt = performance.now()
    for (;;) {
      try {
        if (find) return await find(header, token)
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
