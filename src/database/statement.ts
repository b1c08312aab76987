/** A statement on a connection: its limit, its cancelling, and whether its success is worth anything. */
import { connect } from 'node:net'
import type pg from 'pg'
import { isReported, isStale, isTimedOut, OutcomeUnknown } from './errors.ts'

const cancelRequestCode = 80_877_102
const cancelLimitMs = 5_000

/** What identifies a connection at its server. */
export interface Target {
  processID: number
  secretKey: number
  host: string
  port: number
}

/**
 * Asks the server to cancel what a connection is running (PostgreSQL manual, "Canceling Requests in Progress"): a
 * request on a connection of its own, without an answer and without a promise to be in time.
 */
export function cancelStatement({ processID, secretKey, host, port }: Target): void {
  const request = Buffer.alloc(16)
  const fields = [request.length, cancelRequestCode, processID, secretKey]
  for (const [index, field] of fields.entries()) request.writeInt32BE(field, index * 4)
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
  socket.on('error', () => {}) // the server is away, and so is the statement
  socket.setTimeout(cancelLimitMs, () => socket.destroy())
  socket.end(request)
  socket.resume()
}

/** A server that does not react to a cancel request within this time is not waited for. */
export const cancelGraceMs = 1_000

/** A statement has a third of its write's deadline, so that a repeat on another connection is in time. */
export const statementsPerDeadline = 3

/** Returns how long a statement of a write may take, the wait for its connection included. */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / statementsPerDeadline)

/** Connections whose last commit was cancelled while it waited for a synchronous standby. */
const unreplicated = new WeakSet<pg.PoolClient>()

/**
 * PostgreSQL cannot take back a commit that waits for its standby: when it is cancelled there it reports success, with
 * a warning (the manual, "Synchronous Replication"), which its code is the only sign of in every language.
 */
export function onNotice(client: pg.PoolClient, routine: string | undefined) {
  if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)
}

/** What the driver keeps to itself. */
type Session = pg.PoolClient & Target & { readyForQuery: boolean; connection: NodeJS.EventEmitter }

/** After an error a server says that it is ready; it does not if the error has ended the session, whatever its code. */
async function hasEnded(session: Session): Promise<boolean> {
  if (session.readyForQuery) return false
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, cancelGraceMs, true)
  const onReady = () => resolve(false)
  const onEnd = () => resolve(true)
  session.connection.once('readyForQuery', onReady).once('end', onEnd)
  const result = await promise
  session.connection.off('readyForQuery', onReady).off('end', onEnd)
  clearTimeout(timer)
  return result
}

/** Runs a statement on a connection and gives the connection back, or ends it when it is of no more use. */
export async function runStatement(
  client: pg.PoolClient,
  statement: pg.QueryConfig,
  limitMs: number,
  signal: AbortSignal | undefined
) {
  const session = client as Session
  let graceTimer: NodeJS.Timeout | undefined
  let isOver = false
  let isCancelled = false
  const silence = Promise.withResolvers<never>()
  const giveUp = () => silence.reject(new Error('the server does not react to a cancel request'))
  const cancel = () => {
    // The signal is that of an attempt, which goes on with its next statement.
    if (isOver) return
    isCancelled = true
    cancelStatement(session)
    // A server that does not react is not waited for: to end its connection may take as long as TCP tries.
    graceTimer ??= setTimeout(() => setImmediate(giveUp), cancelGraceMs)
  }
  // After a standstill of the process the timers come first, and the result waits in the socket.
  const cancelSoon = () => void setImmediate(cancel)
  const timer = setTimeout(cancelSoon, limitMs)
  signal?.addEventListener('abort', cancelSoon)
  let result: pg.QueryResult | undefined
  let error: unknown
  let isServerLost = false
  let isLost = false
  try {
    result = await Promise.race([client.query(statement), silence.promise])
  } catch (cause) {
    error = cause
    isLost = !isReported(cause) || (await hasEnded(session))
    isServerLost = isLost ? !isTimedOut(cause) : isStale(cause)
    if (isLost && isReported(cause)) error = new OutcomeUnknown('the session has ended', cause)
  }
  isOver = true
  clearTimeout(timer)
  clearTimeout(graceTimer)
  // A cancel request that comes late would meet the next statement of this connection.
  client.release(isLost || isServerLost || isCancelled)
  // A success that was cancelled may be such a commit, too.
  if (!unreplicated.delete(client) && !(isCancelled && result)) return { result, error, isServerLost }
  return { result: undefined, error: new OutcomeUnknown('the commit is not replicated'), isServerLost }
}
