/** The list of connections, on a server that listens to nothing. */
import { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import t from 'tap'
import { trackConnections } from '../../src/http/connections.ts'

t.test(
  'a request is followed until its response closes, and not at all when its socket is gone',
  async (t) => {
    const server = new Server()
    const connections = trackConnections(server, 1_000, Number.POSITIVE_INFINITY, () => {})
    const socket = new Socket()
    socket.on('data', () => {}) // as Node's parser does
    server.listeners('connection').at(-1)?.(socket)
    const ask = () => {
      const request = new IncomingMessage(socket)
      const response = new ServerResponse(request)
      server.emit('request', request, response)
      return { request, response }
    }
    const [first, second] = [ask(), ask()]
    const connection = connections.get(socket)
    const pending = () => [...(connection?.pendingResponses.keys() ?? [])]
    t.strictSame(pending(), [first.response, second.response])
    t.equal(connection?.newest, second.request)
    first.response.emit('close')
    t.strictSame(pending(), [second.response])
    socket.emit('close')
    t.equal(connections.size, 0)
    ask()
    t.equal(connections.size, 0)
    t.strictSame(pending(), [second.response])
  }
)
