/** Which response of a connection is its last, and how the server closes. */
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { watchClosing } from './closing.ts'
import { awaits100, isFramingFaulty } from './header-rules.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** From now on every response is the last on its connection, and says so. */
    endConnections(): void
  }
}

interface Options {
  /** How long a request that has begun may take to arrive while the server closes, in ms. */
  headersTimeoutMs: number
}

export default fp<Options>(
  async (app, { headersTimeoutMs }) => {
    const { connections } = app
    app.decorate('endConnections', () => {
      connections.isClosing = true
    })

    app.addHook('onSend', ({ raw, connection }, reply, payload, done) => {
      const isNewest = connection?.newest === raw && !connection.owesFailure
      const isLast =
        connections.isClosing ||
        connection?.isFinal ||
        connection?.isExcess ||
        connection?.newestFailure ||
        raw.socket.readableEnded ||
        isFramingFaulty(raw)
      const isUninvited = awaits100(raw) && !raw.complete // whether its body comes is the client's choice
      if (isNewest && (isLast || isUninvited)) {
        reply.header('connection', 'close')
        connection.isOver = true
      }
      // Node closes behind a body that came without its 100, with the responses behind this one unsent.
      else if (awaits100(raw) && reply.raw.shouldKeepAlive) reply.header('connection', 'keep-alive')
      // Fastify closes behind a refused body, which may reset the connection, and while it closes itself, which would
      // cut off the responses behind this one. The rest of the body is read and dropped instead.
      else if (reply.hasHeader('connection') || connections.isClosing) reply.removeHeader('connection')
      done(null, payload)
    })

    app.addHook('preClose', (done) => {
      app.endConnections()
      watchClosing(app.server, connections, headersTimeoutMs, (socket) =>
        app.rejectConnection(socket, new Failure('RequestTimeout'))
      )
      done()
    })
  },
  { name: 'last-response', dependencies: ['protocol'] }
)
