/**
 * Checks the frames of a server's messages before the driver reads them. A frame begins with a type
 * of one byte and a length of four bytes, which counts itself (PostgreSQL manual, "Overview").
 */

/**
 * The longest message that is accepted; no message to this service comes near it. The driver would
 * collect bytes until it has as many as the server announced.
 */
const longest = 2 ** 26
const headBytes = 5
const [errorType, noticeType] = [0x45, 0x4e]

/**
 * Makes a function that is called with each chunk of a server's bytes. It throws if a message has
 * an impossible length, or if an error or a notice lacks its end: the driver would search for that
 * end for ever.
 */
export function createFrameCheck(): (chunk: Buffer) => void {
  let type = 0
  let headSeen = 0
  let length = 0
  /** How many bytes of the message are still to come. */
  let left = 0
  /**
   * How many zeros are at the end of the message so far. An error or a notice must end with two:
   * that of its last field, and that of the list. If it has no fields, only the second is there, so
   * the count starts at one.
   */
  let zeros = 1

  const readHead = (byte: number) => {
    if (headSeen === 0) type = byte
    length = headSeen === 0 ? 0 : length * 256 + byte
    if (++headSeen < headBytes) return
    if (length < headBytes - 1 || length > longest) throw new Error(`a message of ${length} bytes`)
    left = length - (headBytes - 1)
    zeros = 1
  }

  return (chunk) => {
    for (let at = 0; at < chunk.length; ) {
      if (headSeen < headBytes) readHead(chunk[at++] as number)
      else {
        const end = Math.min(chunk.length, at + left)
        // Only the last two bytes matter. A chunk with one byte of the message adds to the count
        // so far.
        if (chunk[end - 1] !== 0) zeros = 0
        else if (end - at === 1) zeros++
        else zeros = chunk[end - 2] === 0 ? 2 : 1
        left -= end - at
        at = end
      }
      if (headSeen < headBytes || left > 0) continue
      if ((type === errorType || type === noticeType) && zeros < 2)
        throw new Error('an error that is cut off')
      headSeen = 0
    }
  }
}
