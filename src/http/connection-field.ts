/** The `connection` field of a response: whether its connection stays open. */

/**
 * Returns the field of a response to a request of this version, or undefined where Node's own is right (RFC 9112, section 9.3).
 * `isLast`: no response follows. `mayPersist`: the client lets the connection stay open. `awaits100`: it may wait for 100.
 */
export function findConnectionField(
  isLast: boolean,
  mayPersist: boolean,
  awaits100: boolean,
  httpVersion: string
): 'close' | 'keep-alive' | undefined {
  if (isLast) return 'close'
  if (!mayPersist) return undefined
  // Node would close after a body that was sent without waiting for 100, and lose the later responses.
  if (awaits100) return 'keep-alive'
  // A client of HTTP/1.0 closes unless it is told otherwise.
  return httpVersion === '1.0' ? 'keep-alive' : undefined
}
