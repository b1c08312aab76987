/** An identity provider of the tests: its keys, its tokens, and what it responds, rightly or not. */
import {
  createHmac,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
  randomUUID,
  sign
} from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { failure, success } from './responses.ts'
import { headers, type Service } from './service.ts'
import type { Teardown } from './teardown.ts'

let lastId = 0

/** Creates a plant with an id of its own by a token. */
export const create = (service: Service, token: string) =>
  service.post(
    { id: ++lastId, name: 'n' },
    { headers: { ...headers, authorization: `Bearer ${token}` } }
  )

/** The response to such a create. */
export const created = success({ name: 'n' })

/** Returns an InvalidToken that says more, in the body and in the challenge (RFC 6750, section 3). */
export function invalid(text: string) {
  const message = `the bearer token ${text}`
  const description = `error="invalid_token", error_description="${message}"`
  const challenge = { 'www-authenticate': `Bearer realm="plant-store", ${description}` }
  return failure('InvalidToken', { message, headers: challenge })
}

export const expired = invalid('has expired')

/** A key pair with an id, and the algorithm of its signatures. */
export interface Key {
  kid: string
  alg: string
  privateKey: KeyObject
  publicKey: KeyObject
}

/** Makes a key for an algorithm: RS256, PS256, ES256 or EdDSA. */
export function makeKey(alg = 'ES256', modulusLength = 2048): Key {
  const kid = randomUUID()
  if (/^[RP]S/.test(alg)) return { kid, alg, ...generateKeyPairSync('rsa', { modulusLength }) }
  if (alg === 'EdDSA') return { kid, alg, ...generateKeyPairSync('ed25519') }
  return { kid, alg, ...generateKeyPairSync('ec', { namedCurve: 'P-256' }) }
}

/** Returns the public half of a key as a member of a JWKS. */
export const toJwk = ({ publicKey, kid, alg }: Key): JsonWebKey & { kid: string } => ({
  ...publicKey.export({ format: 'jwk' }),
  kid,
  alg,
  use: 'sig'
})

export const toJwks = (...keys: Key[]) => JSON.stringify({ keys: keys.map(toJwk) })

const encode = (part: unknown) =>
  Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')

/** Signs a header and claims, as text or to be written as JSON, by any algorithm. */
export function signToken(key: KeyObject | string, header: object, claims: unknown): string {
  const { alg } = header as { alg?: string }
  const text = `${encode(header)}.${encode(claims)}`
  const make = () => {
    const [, digits = ''] = /(\d{3})$/.exec(alg ?? '') ?? []
    if (alg?.startsWith('HS'))
      return createHmac(`sha${digits}`, key as string)
        .update(text)
        .digest()
    if (alg === 'EdDSA') return sign(null, Buffer.from(text), key as KeyObject)
    const options = { key: key as KeyObject, dsaEncoding: 'ieee-p1363' as const }
    const padding = alg?.startsWith('PS') ? { padding: 6, saltLength: 32 } : {}
    return sign(`sha${digits}`, Buffer.from(text), { ...options, ...padding })
  }
  return `${text}.${/^none$/i.test(alg ?? '') ? '' : make().toString('base64url')}`
}

/** Returns Unix time, in seconds, so many seconds from now. */
export const inSeconds = (seconds: number) => Math.floor(Date.now() / 1_000) + seconds

export const audience = 'https://plants.test'

/** How a server responds to a request. */
export type Respond = (request: IncomingMessage, response: ServerResponse) => void

/** Starts a provider on a free port. */
export async function startProvider(t: Teardown, ...keys: Key[]) {
  /** The paths that were asked for. */
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(`${request.url}`)
    provider.respond(request, response)
  })
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  const port = await listen(0)
  const issuer = `http://127.0.0.1:${port}`
  const goAway = async () => {
    if (!server.listening) return
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
  t.teardown(goAway)
  const respond: Respond = (request, response) => {
    const document = { issuer, jwks_uri: `${issuer}/keys` }
    const isDocument = request.url === '/.well-known/openid-configuration'
    response.end(isDocument ? JSON.stringify(document) : toJwks(...provider.keys))
  }
  /** Makes a good token, or one with other claims and header fields; undefined leaves one out. */
  const token = (claims: object = {}, header: object = {}, key = provider.keys[0] as Key) => {
    const usual = { iss: issuer, aud: audience, sub: 'alice', jti: randomUUID() }
    const times = { iat: inSeconds(0), exp: inSeconds(600) }
    const head = { alg: key.alg, kid: key.kid, typ: 'JWT', ...header }
    return signToken(key.privateKey, head, { ...usual, ...times, ...claims })
  }
  /** What may change at any time. */
  const provider = { keys, respond }
  /** The settings of a service that trusts it. */
  const settings = { AUTH_JWT_ISSUER: issuer, AUTH_JWT_AUDIENCE: audience }
  const comeBack = () => listen(port)
  return Object.assign(provider, { issuer, paths, token, settings, goAway, comeBack })
}
