/** A statement on a connection: its time limit, its cancelling, and whether its success can be trusted. */
import { connect, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as encrypt } from 'node:tls'
import type pg from 'pg'
import { isReported, isStale, isTimedOut, OutcomeUnknown } from './errors.ts'

/** What the driver keeps to itself. */
interface Session extends pg.ClientBase {
  processID: number
  secretKey: number
  host: string
  port: number
  ssl?: boolean | ConnectionOptions
  readyForQuery: boolean
  connection: NodeJS.EventEmitter & { stream?: Partial<Socket> }
}

/** The codes of requests (PostgreSQL manual, "Message Formats"). */
const cancelCode = 80_877_102
const tlsCode = 80_877_103

function encodeRequest(...fields: number[]): Buffer {
  const request = Buffer.alloc(4 + 4 * fields.length)
  for (const [index, field] of [request.length, ...fields].entries()) request.writeInt32BE(field, index * 4)
  return request
}

/**
 * Asks the server to cancel what a connection is running (PostgreSQL manual, "Canceling Requests in Progress"): a
 * request on a connection of its own, without a response and without a guarantee that it is in time. As in libpq 17, that
 * goes to the same address, and is encrypted and verified as the session is.
 */
export function cancelStatement(client: pg.ClientBase): void {
  const { processID, secretKey, host, port, ssl, connection } = client as Session
  const request = encodeRequest(cancelCode, processID, secretKey)
  // A name may lead to another server by now.
  const address = connection?.stream?.remoteAddress ?? host
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, address)
  const ignore = () => {} // if the server cannot be reached, the statement fails, too
  socket.on('error', ignore)
  socket.setTimeout(5_000, () => socket.destroy())
  if (!ssl) {
    socket.end(request)
    socket.resume()
    return
  }
  socket.write(encodeRequest(tlsCode))
  socket.once('data', (answer) => {
    if (answer.toString() !== 'S') return socket.destroy()
    const options = ssl as ConnectionOptions // `true` has none
    const name = isIP(host) ? {} : { servername: host }
    // The driver makes the key non-enumerable.
    return encrypt({ socket, host, ...options, key: options.key as string, ...name })
      .on('error', ignore)
      .end(request)
      .resume()
  })
}

/** How long a statement waits for its server to react to a cancel request. */
export const cancelGraceMs = 1_000

/** A statement has a third of its write's deadline, so that a repeat on another connection is in time. */
export const statementsPerDeadline = 3

/** Returns how long a statement of a write may take, and wait for its connection. */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / statementsPerDeadline)

/** Connections whose last commit was cancelled while it waited for a synchronous standby. */
const unreplicated = new WeakSet<pg.PoolClient>()

/**
 * PostgreSQL cannot undo a commit that waits for its standby. Cancelled while it waits, it reports success with a warning
 * (the manual, "Synchronous Replication"). The warning's text is translated, so only its routine identifies it.
 */
export function onNotice(client: pg.PoolClient, routine: string | undefined) {
  if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)
}

/** Returns whether an error has ended the session: then the server does not say that it is ready for the next statement. */
async function hasEnded(client: pg.ClientBase): Promise<boolean> {
  const { readyForQuery, connection } = client as Session
  if (readyForQuery) return false
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, cancelGraceMs, true)
  const onReady = () => resolve(false)
  const onEnd = () => resolve(true)
  connection.once('readyForQuery', onReady).once('end', onEnd)
  const result = await promise
  connection.off('readyForQuery', onReady).off('end', onEnd)
  clearTimeout(timer)
  return result
}

/** What is left after a statement: a session for the next one, none, or not even a server that other sessions can use. */
type Left = 'session' | 'no session' | 'no server'

/** Returns what an error has left, and what it says about the statement. */
async function judge(client: pg.ClientBase, cause: unknown): Promise<{ left: Left; error: unknown }> {
  if (!isReported(cause)) return { left: 'no server', error: cause }
  if (!(await hasEnded(client))) return { left: isStale(cause) ? 'no server' : 'session', error: cause }
  const error = new OutcomeUnknown('the session has ended', { cause })
  return { left: isTimedOut(cause) ? 'no session' : 'no server', error }
}

/** Runs a statement on a connection, and releases the connection, or ends it if it cannot be used again. */
export async function runStatement(
  client: pg.PoolClient,
  statement: pg.QueryConfig,
  limitMs: number,
  signal: AbortSignal | undefined
) {
  let graceTimer: NodeJS.Timeout | undefined
  let isOver = false
  let isCancelled = false
  const silence = Promise.withResolvers<never>()
  const stopWaiting = () => silence.reject(new Error('the server does not react to a cancel request'))
  const cancel = () => {
    // The signal belongs to a whole attempt, which may have reached a later statement.
    if (isOver) return
    isCancelled = true
    cancelStatement(client)
    // If the server does not react, wait no longer: its connection may take as long to end as TCP retries.
    graceTimer ??= setTimeout(() => setImmediate(stopWaiting), cancelGraceMs)
  }
  // After a standstill of the process, timers run first, while the result may be waiting in the socket: read that first.
  const cancelSoon = () => void setImmediate(cancel)
  const timer = setTimeout(cancelSoon, limitMs)
  signal?.addEventListener('abort', cancelSoon)
  let result: pg.QueryResult | undefined
  let error: unknown
  let left: Left = 'session'
  try {
    result = await Promise.race([client.query(statement), silence.promise])
  } catch (cause) {
    ;({ left, error } = await judge(client, cause))
  }
  isOver = true
  clearTimeout(timer)
  clearTimeout(graceTimer)
  // After a cancel, too: a late cancel request would cancel the next statement of this connection.
  client.release(left !== 'session' || isCancelled)
  const isServerLost = left === 'no server'
  const hasNotice = unreplicated.delete(client)
  // A commit that was cancelled while it waited for its standby reports success, and the notice may have been suppressed.
  if (!hasNotice && !(isCancelled && result)) return { result, error, isServerLost }
  return { result: undefined, error: new OutcomeUnknown('the commit is not replicated'), isServerLost }
}
