/** Whether a connection stays open after a response (RFC 9112, section 9.3). */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Connection } from './connections.ts'
import { awaitsContinue } from './head.ts'

/**
 * What happens to a connection after a response. `keep`: the client may send another request.
 * `close`: the response is the last one. `close after the body`: the response is the last
 * one, and it is sent only when the whole body of the request has arrived.
 */
export type Persistence = 'keep' | 'close' | 'close after the body'

/** The part of a connection that the decision needs. */
type ConnectionState = Pick<Connection, 'newest' | 'isOver' | 'isHalfClosed' | 'cutOffBy'>
type RequestState = Pick<IncomingMessage, 'complete' | 'headers' | 'httpVersion'>
type ResponseState = Pick<ServerResponse, 'shouldKeepAlive'>

/**
 * Decides what happens to a connection after the response to one of its requests. `connection` is
 * undefined if the connection has closed, or if the request was injected. `isLeaving`: the server
 * is shutting down.
 */
export function decidePersistence(
  connection: ConnectionState | undefined,
  request: RequestState,
  response: ResponseState,
  isLeaving: boolean
): Persistence {
  const { complete } = request
  // A client that is refused before its 100 (Continue) may still send the body, or leave it out.
  // The server cannot tell whether a body or a request follows.
  const isAmbiguous = !complete && awaitsContinue(request)
  // If anything was read after this request, the connection stays open for the response to that.
  const isNewest = connection?.newest === request
  const isLast =
    isNewest &&
    (connection.isOver || isLeaving || isAmbiguous || (complete && connection.isHalfClosed))
  if (!isLast && response.shouldKeepAlive) return 'keep'
  // Node closes the connection as soon as the response is sent. A client that was still sending its
  // body would get a reset, and could lose the response. So wait for the body, unless it will not
  // come.
  return complete || isAmbiguous || connection?.cutOffBy ? 'close' : 'close after the body'
}
