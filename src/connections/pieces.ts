/** The pieces in which Node's parser gets what was read: short ones, so that it parses no more requests than may be pending. */

/** How many requests of one connection may wait for their responses, before and after it has shown a valid token. */
export const maximumPending = { unknown: 4, trusted: 64 }
/** When this many requests of all connections together wait, each connection may have one. */
const maximumPendingTogether = 4_096
/** Half of the shortest request, `GET / HTTP/1.1` and an empty line: a piece of this length ends one request at most. */
const pieceBytes = 8
/** A piece of a refused body, whose connection has no pending request. It can hide some fifty requests. */
const bodyPieceBytes = 1_024

/**
 * Returns how many more requests of a connection may be parsed while `pending` of its own and `together` of all connections
 * wait. A connection without a pending request may always have one.
 */
export function countSpare(pending: number, isTrusted: boolean, together: number): number {
  const most = isTrusted ? maximumPending.trusted : maximumPending.unknown
  const spare = Math.min(most - pending, maximumPendingTogether - together)
  return pending === 0 ? Math.max(1, spare) : spare
}

/**
 * Returns the length of the next piece in bytes: too short to hold more than the spare requests. If none is spare, a piece
 * can end the newest request, but not hold another.
 */
export const findPieceBytes = (spare: number, isRestOfBody: boolean): number =>
  Math.max(2 * spare * pieceBytes, isRestOfBody ? bodyPieceBytes : pieceBytes)
