/** Who may call: the bearer token of each request, and the caller that it stands for. */
import { timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import bearerAuth from '@fastify/bearer-auth'
import type { Registry } from '@prometheus-io/client'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/gauge.ts'
import { type TokenFile, watchTokenFile } from './token-file.ts'
import { findCaller, isTokenShaped, type Tokens } from './tokens.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Refuses a request without a good token, before any of its body is read. */
    authenticate: onRequestHookHandler
    /** Reads the file of tokens anew, if there is one. */
    reloadTokens(): Promise<void>
  }
  interface FastifyRequest {
    /** The name of the token that the request came with; empty until that is known. */
    caller: string
  }
}

interface Options {
  tokens: Tokens
  /** Where the tokens came from, if from a file: it is followed. */
  file?: TokenFile | undefined
  registry: Registry
}

/** The last Authorization that was good on a connection, and for which tokens: it need not be hashed again. */
interface Accepted {
  readonly tokens: Tokens
  readonly authorization: Buffer
  readonly caller: string
}

const realm = 'Bearer realm="plant-store"'

export default fp<Options>(
  async (app, { tokens, file, registry }) => {
    const followed = file && watchTokenFile(file, tokens, app.log)
    const help = '1 while AUTH_TOKENS_FILE is broken, and the tokens are those that it had before'
    addGauge(registry, 'tokens_file_error', help, () => +(followed?.isBroken() ?? false))
    app.addHook('onClose', async () => followed?.close())
    app.decorate('reloadTokens', async () => {
      if (followed) await followed.reload()
      else app.log.info('there is no AUTH_TOKENS_FILE to read again')
    })
    app.decorateRequest('caller', '')
    await app.register(bearerAuth, {
      addHook: false,
      specCompliance: 'rfc6749', // the scheme's name in any case, as RFC 9110 section 11.1 has it
      verifyErrorLogLevel: 'trace',
      keys: [],
      auth: (token, request) => {
        request.caller = findCaller(followed?.current() ?? tokens, token) ?? ''
        return request.caller !== ''
      }
    })
    const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>
    const accepted = new WeakMap<Socket, Accepted>()
    app.decorate('authenticate', (request, reply, done) => {
      const { socket, headers } = request.raw
      const current = followed?.current() ?? tokens
      const known = accepted.get(socket)
      if (known?.tokens === current && isEqual(known.authorization, headers.authorization)) {
        request.caller = known.caller
        return done()
      }
      verify(request, reply, (error) => {
        if (error) return done(toAuthFailure(headers.authorization))
        const authorization = Buffer.from(headers.authorization as string, 'latin1')
        accepted.set(socket, { tokens: current, authorization, caller: request.caller })
        done()
      })
    })
  },
  { name: 'auth' }
)

/** In a time that does not tell how much of a guess is right: a proxy can share the connection between clients. */
function isEqual(accepted: Buffer, authorization: string | undefined): boolean {
  if (authorization?.length !== accepted.length) return false
  return timingSafeEqual(accepted, Buffer.from(authorization, 'latin1'))
}

/** The failure and its challenge, as RFC 6750 section 3 has them: no error code where no bearer token was tried. */
function toAuthFailure(authorization: string | undefined): Failure {
  const [scheme = '', ...rest] = (authorization ?? '').split(' ')
  if (scheme.toLowerCase() !== 'bearer') return new Failure('MissingToken', challenge(realm))
  if (!isTokenShaped(rest.join(' ').trim())) {
    return new Failure('MalformedToken', challenge(`${realm}, error="invalid_request"`))
  }
  return new Failure('InvalidToken', challenge(`${realm}, error="invalid_token"`))
}

const challenge = (value: string) => ({ headers: { 'www-authenticate': value } })
