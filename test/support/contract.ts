/** The interface's contract on the wire: what every response must look like, whatever was sent. */
import { fields } from './plants.ts'
import { everyResponse, failureNumbers } from './responses.ts'
import type { RawResponse } from './sockets.ts'

const statusLines = ['HTTP/1.1 100 Continue', 'HTTP/1.1 200 OK', 'HTTP/1.1 400 Bad Request']
const fieldNames = new Set([
  ...Object.keys(everyResponse),
  'allow',
  'error-name',
  'idempotent-replayed',
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'retry-after',
  'write-outcome',
  'www-authenticate'
])

/**
 * Parses all that came back on a connection, and returns the final responses (those after an interim 100).
 * Throws an Error for the first byte that breaks the contract. `mayBeHead`: responses may lack their bodies.
 */
export function checkResponses(bytes: Buffer, { mayBeHead = false } = {}): RawResponse[] {
  const responses: RawResponse[] = []
  let rest = bytes.toString('latin1')
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const [start = '', ...fields] = rest.slice(0, end).split('\r\n')
    if (end === -1 || !statusLines.includes(start)) throw fault('no status line of the contract', rest)
    const status = Number(start.slice(9, 12))
    const after = rest.slice(end + 4)
    if (status === 100) {
      if (fields.length > 0 || after === '') throw fault('a 100 with fields, or without a response', rest)
      rest = after
      continue
    }
    const headers = checkFields(fields)
    const length = Number(headers['content-length'])
    const isBare = mayBeHead && (after === '' || after.startsWith('HTTP/1.1 '))
    if (after.length < length && !isBare) throw fault('a body cut off', rest)
    const body = isBare ? '' : Buffer.from(after.slice(0, length), 'latin1').toString()
    if (!isBare) checkBody(status, body, headers)
    responses.push({ status, headers, body })
    rest = isBare ? after : after.slice(length)
  }
  return responses
}

function checkFields(fields: string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const field of fields) {
    const [, name = '', value = ''] = /^([a-z-]+): (.+)$/i.exec(field) ?? []
    const key = name.toLowerCase()
    if (!fieldNames.has(key) || key in headers) throw fault('a field of no contract', field)
    headers[key] = value
  }
  const { 'x-request-id': _, ...fixed } = everyResponse
  for (const [name, value] of Object.entries(fixed)) {
    if (headers[name] !== value) throw fault(`another ${name}`, fields)
  }
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(headers['x-request-id'] ?? '')) throw fault('no request id', fields)
  if (!/^\d+$/.test(headers['content-length'] ?? '')) throw fault('no content length', fields)
  return headers
}

function checkBody(status: number, body: string, headers: Record<string, string>) {
  const value = JSON.parse(body)
  const { error, message } = value
  const isGood =
    status === 200
      ? isPlant(value) && !('error-name' in headers)
      : failureNumbers[headers['error-name'] ?? ''] === error && typeof message === 'string' && message !== ''
  const known: string[] = status === 200 ? fields : ['error', 'message']
  if (!isGood || Object.keys(value).some((name) => !known.includes(name)))
    throw fault('a body of another shape', body)
}

const isPlant = (value: Record<string, unknown>) =>
  typeof value.name === 'string' && ['string', 'undefined'].includes(typeof value.tag)

const fault = (what: string, where: unknown) => new Error(`${what}: ${JSON.stringify(where).slice(0, 500)}`)
