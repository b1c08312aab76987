/** Whether a connection stays open after a response (RFC 9112, section 9.3). */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Connection } from './connections.ts'
import { awaitsContinue } from './head.ts'

/**
 * What happens to a connection after a response: it is kept; it closes; or it closes, and the
 * response is sent only when the whole body of its request has arrived.
 */
export type Persistence = 'keep' | 'close' | 'close after the body'

/** What the decision reads of a connection. */
type ConnectionState = Pick<Connection, 'newest' | 'isOver' | 'isHalfClosed' | 'cutOffBy'>
type RequestState = Pick<IncomingMessage, 'complete' | 'headers' | 'httpVersion'>
type ResponseState = Pick<ServerResponse, 'shouldKeepAlive'>

/**
 * Decides what happens to a connection after the response to one of its requests. `connection` is
 * undefined if it has closed, or if the request was injected. `isLeaving`: the server shuts down.
 */
export function decidePersistence(
  connection: ConnectionState | undefined,
  request: RequestState,
  response: ResponseState,
  isLeaving: boolean
): Persistence {
  const { complete } = request
  // A client that is refused before its 100 (Continue) may send the body or leave it out. So what
  // follows on the connection could be a body or a request.
  const isAmbiguous = !complete && awaitsContinue(request)
  // Another request or a refusal can follow. Then the connection closes after the response to that.
  const isNewest = connection?.newest === request
  const isLast =
    isNewest &&
    (connection.isOver || isLeaving || isAmbiguous || (complete && connection.isHalfClosed))
  if (!isLast && response.shouldKeepAlive) return 'keep'
  // Node closes as soon as the response is sent. A client that is still sending its body then gets
  // a reset, and can lose the response. So wait for the body, unless it cannot be expected.
  return complete || isAmbiguous || connection?.cutOffBy ? 'close' : 'close after the body'
}
