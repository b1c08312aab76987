/** A client that sends raw bytes, and reads all that comes back. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { token } from './service.ts'
import { until } from './until.ts'

/** A parsed response. */
export interface RawResponse {
  status: number
  headers: Record<string, string>
  body: string
}

/** A part of what is sent: text in latin1, bytes, or a wait until what has come back matches. */
export type Part = string | Buffer | RegExp

/** Connects to the host and port of a URL. */
export function connectTo(url: string, options: { allowHalfOpen?: boolean } = {}): Socket {
  return connect({ ...addressOf(url), ...options })
}

function addressOf(url: string) {
  const { hostname, port } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) }
}

interface Options {
  /** Half-close the connection when all is sent. */
  halfClose?: boolean
  /** Use TLS. */
  tls?: ConnectionOptions
}

/** Sends the parts on one connection; returns every byte that came back when the server closes. Throws when it does not. */
export async function exchange(
  url: string,
  parts: Part[],
  { halfClose = false, tls }: Options = {}
) {
  const options = { ...addressOf(url), allowHalfOpen: true }
  const socket = tls ? connectTls({ ...options, ...tls }) : connect(options)
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('error', () => {})
  let isSilent = false
  socket.setTimeout(120_000, () => {
    isSilent = true
    socket.destroy()
  })
  const ended = Promise.race([once(socket, 'end'), once(socket, 'close')]).catch(() => {})
  await once(socket, 'connect')
  await send(socket, parts, () => Buffer.concat(chunks).toString('latin1'))
  if (halfClose) socket.end()
  await ended
  socket.destroy()
  if (isSilent) throw new Error('the server neither writes nor closes')
  return Buffer.concat(chunks)
}

async function send(socket: Socket, parts: Part[], received: () => string) {
  for (const part of parts) {
    if (part instanceof RegExp)
      await until(`${part} comes back`, received, (text) => part.test(text))
    else
      await new Promise<void>((resolve) => socket.write(part as string, 'latin1', () => resolve()))
  }
}

/** Parses a stream of responses (to HEAD: without bodies); throws if it is not a stream of whole responses. */
export function parseResponses(bytes: Buffer, { isHead = false } = {}): RawResponse[] {
  const responses: RawResponse[] = []
  let rest = bytes.toString('latin1')
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const [start = '', ...fields] = rest.slice(0, end).split('\r\n')
    const [, status] = /^HTTP\/1\.1 (\d{3}) [A-Z][A-Za-z ]*$/.exec(start) ?? []
    if (end === -1 || status === undefined)
      throw new Error(`not a response: ${JSON.stringify(rest.slice(0, 200))}`)
    const headers: Record<string, string> = {}
    for (const field of fields) {
      const colon = field.indexOf(': ')
      const name = field.slice(0, colon).toLowerCase()
      if (name in headers) throw new Error(`a response has ${name} twice`)
      headers[name] = field.slice(colon + 2)
    }
    const length = isHead ? 0 : Number(headers['content-length'] ?? 0)
    const body = rest.slice(end + 4, end + 4 + length)
    if (body.length < length) throw new Error('a response is cut off')
    responses.push({
      status: Number(status),
      headers,
      body: Buffer.from(body, 'latin1').toString()
    })
    rest = rest.slice(end + 4 + length)
  }
  return responses
}

/** Writes a good request; `head` holds whole header lines to add or, by name, to replace (undefined leaves one out). */
export function request(
  body: string,
  head: Record<string, string | undefined> = {},
  start = 'POST /plants HTTP/1.1'
) {
  const fields: Record<string, string | undefined> = {
    host: 'test',
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body, 'latin1')),
    ...head
  }
  const lines = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : `${name}: ${value}\r\n`
  )
  return `${start}\r\n${lines.join('')}\r\n${body}`
}

/** A connection that stays open. */
export interface Client {
  socket: Socket
  send(bytes: string | Buffer): void
  /** Resolves when what has come is whole responses, one at least; rejects when the connection ends before. */
  responses(): Promise<RawResponse[]>
}

/** Opens a connection that is destroyed at teardown. */
export async function open(
  t: { teardown(callback: () => void): void },
  url: string
): Promise<Client> {
  const socket = connectTo(url, { allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('error', () => {})
  return {
    socket,
    send: (bytes) => void socket.write(bytes as string, 'latin1'),
    responses: () =>
      new Promise((resolve, reject) => {
        const look = () => {
          const responses = parseIfWhole(Buffer.concat(chunks))
          if (responses.length > 0) resolve(responses)
        }
        const end = () => {
          look()
          const text = Buffer.concat(chunks).toString('latin1').slice(-500)
          reject(new Error(`the connection has ended after ${JSON.stringify(text)}`))
        }
        look()
        if (socket.readableEnded || socket.closed) end()
        else socket.on('data', look).once('end', end).once('close', end)
      })
  }
}

function parseIfWhole(bytes: Buffer): RawResponse[] {
  try {
    return parseResponses(bytes)
  } catch {
    return []
  }
}
