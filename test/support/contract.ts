/** The interface's contract on the wire: what every response must look like, whatever was sent. */
import { isDeepStrictEqual } from 'node:util'
import { fields } from './plants.ts'
import {
  type FailureName,
  failure,
  failureNumbers,
  maskFields,
  replay,
  success
} from './responses.ts'
import { parseResponses, type RawResponse } from './sockets.ts'

/** A client's own, or one that the service has made. */
const requestId = /^[A-Za-z0-9._-]{1,128}$/

/**
 * Parses all that came back on a connection, and returns the final responses (those after an interim 100). Throws an Error
 * for the first one that is not of the contract.
 */
export function checkResponses(bytes: Buffer): RawResponse[] {
  const responses = parseResponses(bytes).filter(({ status }) => status !== 100)
  for (const { status, headers, body } of responses) {
    const id = headers['x-request-id'] ?? ''
    const masked = { ...maskFields(headers), 'x-request-id': id.replace(requestId, 'made') }
    const found = { status, headers: masked, body }
    if (!isDeepStrictEqual(found, expect(found)))
      throw new Error(`not of the contract: ${JSON.stringify(found)}`)
  }
  return responses
}

/** Returns the whole response of the contract that this one seems to be. */
function expect({ status, headers, body }: RawResponse) {
  const value = JSON.parse(body)
  const { 'error-name': name = '', allow } = headers
  if (status === 200) {
    const plant = Object.fromEntries(fields.map((field) => [field, value[field]]))
    return 'idempotent-replayed' in headers ? replay(plant) : success(plant)
  }
  if (!(name in failureNumbers)) return undefined
  return failure(name as FailureName, {
    message: value.message || undefined,
    headers: allow ? { allow } : {}
  })
}
