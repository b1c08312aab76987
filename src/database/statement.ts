/** A statement on a connection: its limit, its cancelling, and whether its success is worth anything. */
import type pg from 'pg'
import { cancelStatement, type Target } from './cancel.ts'
import { isConnectionLost, OutcomeUnknown } from './errors.ts'

const cancelGraceMs = 1_000

/** Connections whose last commit was cancelled while it waited for a synchronous standby. */
const unreplicated = new WeakSet<pg.PoolClient>()

/**
 * PostgreSQL cannot take back a commit that waits for its standby: when it is cancelled there it reports success, with
 * a warning (the manual, "Synchronous Replication"), which its code is the only sign of in every language.
 */
export function onNotice(client: pg.PoolClient, routine: string | undefined) {
  if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)
}

/** Runs a statement on a connection and gives the connection back, or ends it when it is of no more use. */
export async function runStatement(
  client: pg.PoolClient,
  statement: pg.QueryConfig,
  limitMs: number,
  signal: AbortSignal | undefined
) {
  let graceTimer: NodeJS.Timeout | undefined
  let isCancelled = false
  const silence = Promise.withResolvers<never>()
  const cancel = () => {
    isCancelled = true
    cancelStatement(client as pg.PoolClient & Target)
    // A server that does not react is not waited for: to end its connection may take as long as TCP tries.
    graceTimer ??= setTimeout(
      silence.reject,
      cancelGraceMs,
      new Error('the server does not react to a cancel request')
    )
  }
  const timer = setTimeout(cancel, limitMs)
  signal?.addEventListener('abort', cancel, { once: true })
  const outcome = await Promise.race([client.query(statement), silence.promise]).then(
    (result) => ({ result, error: undefined, isLost: false }),
    (error) => ({ result: undefined, error, isLost: isConnectionLost(error) })
  )
  clearTimeout(timer)
  clearTimeout(graceTimer)
  signal?.removeEventListener('abort', cancel)
  // A cancel request that comes late would meet the next statement of this connection.
  client.release(outcome.isLost || isCancelled)
  // A success that was cancelled may be such a commit, too: the server's settings can keep its warning back.
  const isOpen = unreplicated.delete(client) || (isCancelled && outcome.result !== undefined)
  return isOpen
    ? { ...outcome, result: undefined, error: new OutcomeUnknown('the commit is not replicated') }
    : outcome
}
