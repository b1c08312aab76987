/** Runs a statement in a session: its time limit, when it is cancelled, and whether its success can be trusted. */
import type pg from 'pg'
import { cancelStatement } from './cancel.ts'
import { isReported, isStale, isTimedOut, ResultUnknown } from './errors.ts'

/** How long PostgreSQL may take to end a statement after a request to cancel it. */
export const cancelGraceMs = 1_000

/** A statement gets a third of its write's deadline, so that a repeat in another session is in time. */
export const statementsPerDeadline = 3

/** Returns how long a statement of a write may wait for a session, and then how long it may take. */
export const statementLimitMs = (deadlineMs: number): number => Math.ceil(deadlineMs / statementsPerDeadline)

/** Sessions whose last commit was cancelled while it waited for a synchronous standby. */
const unreplicated = new WeakSet<pg.PoolClient>()

/**
 * Notes a commit that its standby may not have. PostgreSQL cannot undo a commit that waits for a standby: cancelled then,
 * it succeeds with a warning (the manual, "Synchronous Replication"). Its text is translated; only its routine identifies it.
 */
export function onNotice(client: pg.PoolClient, routine: string | undefined) {
  if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)
}

/** The fields of the driver's client that its types leave out. */
interface Session extends pg.ClientBase {
  readyForQuery: boolean
  connection: NodeJS.EventEmitter
}

/** Returns whether an error has ended the session. If it has not, the server says that it is ready for another statement. */
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

/** What an error costs: nothing, the session, or its server, whose other sessions are then useless, too. */
type Loss = 'nothing' | 'session' | 'server'

/** Returns what an error costs, and the error that describes the outcome of the statement. */
async function judge(client: pg.ClientBase, cause: unknown): Promise<{ loss: Loss; error: unknown }> {
  if (!isReported(cause)) return { loss: 'server', error: cause }
  if (!(await hasEnded(client))) return { loss: isStale(cause) ? 'server' : 'nothing', error: cause }
  const error = new ResultUnknown('the session has ended', { cause })
  return { loss: isTimedOut(cause) ? 'session' : 'server', error }
}

/** Runs a statement in a session. Then releases the session, or ends it if it cannot be used again. */
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
    // The result was read in the turn in which the time was up. A request would cancel the session's next statement.
    if (isOver) return
    isCancelled = true
    cancelStatement(client)
    // Do not wait for a server that does not react: TCP may take a quarter of an hour to notice that it is gone.
    graceTimer ??= setTimeout(() => setImmediate(stopWaiting), cancelGraceMs)
  }
  // After a standstill of the process, timers fire before sockets are read. Read first: the result may have arrived.
  const cancelAfterReading = () => void setImmediate(cancel)
  const timer = setTimeout(cancelAfterReading, limitMs)
  signal?.addEventListener('abort', cancelAfterReading)
  let result: pg.QueryResult | undefined
  let error: unknown
  let loss: Loss = 'nothing'
  try {
    result = await Promise.race([client.query(statement), silence.promise])
  } catch (cause) {
    ;({ loss, error } = await judge(client, cause))
  }
  isOver = true
  clearTimeout(timer)
  clearTimeout(graceTimer)
  signal?.removeEventListener('abort', cancelAfterReading)
  // End the session after a cancel, too: a request that comes late would cancel its next statement.
  client.release(loss !== 'nothing' || isCancelled)
  const isServerLost = loss === 'server'
  const hasNotice = unreplicated.delete(client)
  // A commit that was cancelled while it waited for its standby reports success, and its notice may have been suppressed.
  if (!hasNotice && !(isCancelled && result)) return { result, error, isServerLost }
  return { result: undefined, error: new ResultUnknown('the commit is not replicated'), isServerLost }
}
