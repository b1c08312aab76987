/** What a request's header says about its body. */
import type { IncomingHttpHeaders } from 'node:http'
import { Failure } from '../failures/failure.ts'

const json = 'application/json'
/**
 * A text in quotes (RFC 9110, section 5.6.4), or the beginning of one. Since each quote begins a match, no part of the text is
 * searched twice, and the time grows with its length only.
 */
const quoted = /"(?:[^"\\]|\\.?)*"?/g

/**
 * Returns the first failure of what a request's header says about its body. It checks, in this order, that there is a body,
 * its type, its charset (RFC 8259, section 8.1: UTF-8), its content coding, and its length (`limitBytes`).
 */
export function checkBodyHeader(headers: IncomingHttpHeaders, limitBytes: number): Failure | undefined {
  const {
    'content-type': type,
    'content-encoding': encoding = 'identity',
    'content-length': length = '0'
  } = headers
  const isEmpty = length === '0' && headers['transfer-encoding'] === undefined
  if (isEmpty) return new Failure('MalformedBody', { message: 'a body is required' })
  const typeFailure = type === json ? undefined : checkType(type ?? '')
  if (typeFailure) return typeFailure
  if (encoding.toLowerCase() !== 'identity') {
    return new Failure('UnsupportedMediaType', { message: 'the content encoding is not supported' })
  }
  return Number(length) > limitBytes ? new Failure('BodyTooLarge') : undefined
}

/** Returns the failure of a media type that is not JSON in UTF-8. */
function checkType(type: string): Failure | undefined {
  const parts = type.replace(quoted, (text) => text.replaceAll(';', ' ')).split(';')
  const [essence, ...others] = parts.map((part) => part.trim().toLowerCase())
  if (essence !== json) return new Failure('UnsupportedMediaType')
  const isOther = (parameter: string) =>
    parameter.startsWith('charset') && !/^charset="?utf-8"?$/.test(parameter)
  if (!others.some(isOther)) return undefined
  return new Failure('UnsupportedMediaType', { message: 'the charset must be UTF-8' })
}
