/** Write ids: what a row is recognised by when its write is repeated. */
import { hash, randomUUID } from 'node:crypto'

/** Gives a write id that nothing else has, for a create that only the service repeats. */
export const randomWriteId = (): string => randomUUID()

/**
 * Gives the write id of a caller's Idempotency-Key: the same for the same two texts, and for no others. A UUID of
 * version 8 (RFC 9562, section 5.8) from a SHA-256 digest; the lengths make the text that is hashed unambiguous.
 */
export function deriveWriteId(caller: string, key: string): string {
  const bytes = hash('sha256', `${caller.length}:${caller}${key.length}:${key}`, 'buffer').subarray(0, 16)
  bytes[6] = 0x80 | ((bytes[6] as number) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
