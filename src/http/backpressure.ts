/** Backpressure: connections whose requests are refused wait, so that refusals leave time for the creates. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/**
 * How many refusals, or responses that belong to no operation, one turn of the event loop sends before their connections
 * wait. libuv ends a turn only when fewer than a thousand connections have something to read: clients that send again at
 * once would keep timers, the database's responses and new batches waiting for seconds.
 */
const perTurn = 32

/** Returns a function that records such a response, which was sent. Only the next request of its connection waits. */
export function createBackpressure(): (request: IncomingMessage) => void {
  /** The connections that wait, in the order in which they resume. */
  const waiting = new Set<Socket>()
  /** How many such responses this turn has sent. */
  let sent = 0
  /** The end of this turn is awaited. */
  let endsSoon = false

  function awaitEnd() {
    if (!endsSoon) setImmediate(endTurn)
    endsSoon = true
  }

  function endTurn() {
    // A turn that has sent more, as to a pipeline, is followed by one that resumes a single connection.
    const next = [...waiting].slice(0, sent > perTurn ? 1 : perTurn)
    for (const socket of next) {
      waiting.delete(socket)
      socket.resume()
    }
    endsSoon = false
    sent = 0
    if (waiting.size > 0) awaitEnd()
  }

  return (request) => {
    awaitEnd()
    if (++sent <= perTurn) return
    const wait = () => {
      waiting.add(request.socket.pause())
      awaitEnd()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (request.complete) wait()
    else request.once('end', wait)
  }
}
