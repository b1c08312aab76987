/** How much of what was read Node's parser gets at once, so that no more requests wait for their responses than may. */

/** How many requests of one connection may wait for their responses, before and after it has shown a valid token. */
export const maximumPending = { unknown: 4, trusted: 64 }
/** Beyond this many on all connections together, a connection may have one. */
const maximumPendingTogether = 4_096
/** Half of the shortest request, `GET / HTTP/1.1` and an empty line: a piece of this length ends one request at most. */
const pieceBytes = 8
const bodyPieceBytes = 1_024

/** Returns how many more requests a connection with `pending` may have; `together` wait on all. One without any may have one. */
export function findRoom(pending: number, isTrusted: boolean, together: number): number {
  const most = isTrusted ? maximumPending.trusted : maximumPending.unknown
  const spare = Math.min(most - pending, maximumPendingTogether - together)
  return pending === 0 ? Math.max(1, spare) : spare
}

/**
 * Returns the bytes of a piece that has no more requests than there is room for; without room, it is too short to end the
 * newest request and hold another. The rest of a refused body can hide some fifty requests, where no other waits.
 */
export const findPieceBytes = (room: number, isRestOfBody: boolean): number =>
  Math.max(2 * room * pieceBytes, isRestOfBody ? bodyPieceBytes : pieceBytes)
