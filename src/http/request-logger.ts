/** The logger of a request. Its lines carry the request's id; most requests have none but the line of their success. */
import type { FastifyBaseLogger } from 'fastify'

type Bindings = Parameters<FastifyBaseLogger['child']>[0]

const methods = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent', 'child'] as const

/** A child logger that pino makes with its first line: that takes longer than the line. */
class RequestLogger {
  readonly #parent: FastifyBaseLogger
  readonly #bindings: Bindings
  #child: FastifyBaseLogger | undefined

  constructor(parent: FastifyBaseLogger, bindings: Bindings) {
    this.#parent = parent
    this.#bindings = bindings
  }

  static {
    for (const name of methods) {
      Object.defineProperty(RequestLogger.prototype, name, {
        value(this: RequestLogger, ...given: unknown[]) {
          this.#child ??= this.#parent.child(this.#bindings)
          return (this.#child[name] as (...given: unknown[]) => unknown)(...given)
        }
      })
    }
  }
}

/** Gives the logger of a request, whose lines carry the bindings. For Fastify's `childLoggerFactory`; a level of a route's own does not count. */
export const createRequestLogger = (logger: FastifyBaseLogger, bindings: Bindings): FastifyBaseLogger =>
  new RequestLogger(logger, bindings) as unknown as FastifyBaseLogger
