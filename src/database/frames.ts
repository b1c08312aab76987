/**
 * The frames of a server's messages: a type of one byte, and a length that counts itself
 * (PostgreSQL manual, "Overview").
 */

/**
 * No message to this service is longer. The driver would keep what comes until it has as many bytes
 * as the server has told.
 */
const longest = 2 ** 26
const headBytes = 5
const [errorType, noticeType] = [0x45, 0x4e]

/**
 * Makes a function that follows the chunks of a server's messages, and throws at a length that no
 * message has, and at an error or a notice without its end: the driver would look for that end for
 * ever.
 */
export function createFrameCheck(): (chunk: Buffer) => void {
  let type = 0
  let headSeen = 0
  let length = 0
  /** How many bytes of the message are still to come. */
  let left = 0
  /**
   * How many zeros there are at the end of what has come of it; its head counts as one. An error
   * ends with two.
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
