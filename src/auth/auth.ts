/** Authentication: the bearer token of each request, and the caller whose it is. */
import type { Registry } from '@prometheus-io/client'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/metrics.ts'
import type { SecretFile } from '../secret-file.ts'
import { findCaller, isTokenShaped, type Tokens, watchTokenFile } from './tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Refuses a request without a valid token, before any of its body is read. */
    authenticate: onRequestHookHandler
    /** Reads the file of tokens again, if there is one. */
    reloadTokens(): Promise<void>
  }
  interface FastifyRequest {
    /** The name of the request's token; empty until it is authenticated. */
    caller: string
  }
}

interface Options {
  tokens: Tokens
  /** The file that the tokens came from, if any: it is watched. */
  file?: SecretFile | undefined
  registry: Registry
}

const realm = 'Bearer realm="plant-store"'
/** RFC 9110, section 11.1: the name of the scheme in any case, and, after a space, the token. */
const bearer = /^bearer(?: (.*))?$/i

export default fp<Options>(
  async (app, { tokens, file, registry }) => {
    const followed = watchTokenFile(file, tokens, app.log)
    const help = '1 while AUTH_TOKENS_FILE is broken'
    addGauge(registry, 'tokens_file_error', help, () => +followed.isBroken())
    app.addHook('onClose', async () => followed.close())
    app.decorate('reloadTokens', followed.reload)
    app.decorateRequest('caller', '')
    app.decorate('authenticate', (request, _, done) => {
      const match = bearer.exec(request.headers.authorization ?? '')
      const secret = match && (match[1] ?? '').trim()
      request.caller = (secret && findCaller(followed.current(), secret)) || ''
      done(request.caller === '' ? toAuthFailure(secret) : undefined)
    })
  },
  { name: 'auth' }
)

/** Returns the failure and its challenge (RFC 6750, section 3): without an error code where no bearer token was tried. */
function toAuthFailure(secret: string | null): Failure {
  if (secret === null) return new Failure('MissingToken', challenge(realm))
  if (!isTokenShaped(secret)) {
    return new Failure('MalformedToken', challenge(`${realm}, error="invalid_request"`))
  }
  return new Failure('InvalidToken', challenge(`${realm}, error="invalid_token"`))
}

const challenge = (value: string) => ({ headers: { 'www-authenticate': value } })
