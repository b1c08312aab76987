/** The repository that the route sees: one create per call, written with others in one transaction. */
import assert from 'node:assert'
import type { FastifyBaseLogger } from 'fastify'
import { breaksRule } from '../database/errors.ts'
import type { FailureName } from '../failures.ts'
import { Failure } from '../failures.ts'
import { GroupCommit } from '../group-commit/group-commit.ts'
import type { AttemptReport, Limits, Store } from '../group-commit/types.ts'
import { NotCommitted, type reasons } from '../group-commit/write-failure.ts'
import { Shares } from '../shares.ts'
import type { Tracing } from '../tracing.ts'
import { countBytes, rowBytes, writeContent } from './columns.ts'
import type { NewPlant } from './schema.ts'
import type { PlantItem } from './sql-store.ts'
import { writtenColumns } from './statements.ts'
import { deriveWriteId, randomWriteId, type Stored, type WriteContext } from './write-id.ts'

/** A create that has succeeded. */
export interface Created {
  readonly stored: Stored
  /** How many plants were in its transaction. */
  readonly rows: number
  /** Call it once, when the response no longer holds the plant's texts: until then, their bytes count. */
  release(): void
}

/** Where plants are stored. */
export interface PlantRepository {
  /**
   * Stores a plant. When the promise resolves, the plant is durable. Rejects, by the write deadline, with the Failure
   * DuplicatePlant, ReusedKey, RefusedPlant, Overloaded, Unavailable, DeadlineExceeded, OutcomeUnknown, ShuttingDown or Internal.
   */
  create(plant: NewPlant, context: WriteContext): Promise<Created>
  /** Returns the Failure that any create of a caller would meet now: Overloaded, Unavailable, ShuttingDown, or undefined. */
  refusalFor(caller: string): Failure | undefined
  /** Watches the database from now on, also while nobody creates. */
  watch(): void
  readonly load: WriteLoad
  /** Refuses new creates, and resolves when every other create has its result. */
  close(): Promise<void>
}

/** What the repository has to do. */
export interface WriteLoad {
  /** Plants that wait for their result. */
  readonly rows: number
  /** How long a new plant is expected to wait, in ms. */
  readonly expectedMs: number
  /** Creates are refused because the database is unreachable. */
  readonly databaseDown: boolean
}

/** Makes a repository that reports what it does. */
export type MakeRepository = (log: FastifyBaseLogger, observer: Observer) => PlantRepository

/** Called for every attempt of a batch. */
export interface Observer {
  onAttempt(report: AttemptReport): void
}

/** The failure for each reason why group commit has decided nothing about a plant. */
const failureNames: Record<keyof typeof reasons, FailureName> = {
  full: 'Overloaded',
  closed: 'ShuttingDown',
  databaseDown: 'Unavailable',
  expired: 'DeadlineExceeded',
  unknown: 'OutcomeUnknown',
  missing: 'Internal'
}

/** The limits of creates. */
export interface WriteLimits extends Limits {
  /** Plants that wait for their result. */
  readonly queueRows: number
  /** Bytes of the plants whose response is not taken. */
  readonly queueBytes: number
}

/** Makes the repository over a store. */
export function createPlantRepository(
  store: Store<PlantItem, Stored>,
  limits: WriteLimits,
  log: Pick<FastifyBaseLogger, 'error' | 'info'>,
  { onAttempt }: Observer,
  tracing?: Tracing
): PlantRepository {
  const downMessage =
    'the database has been unreachable for the write deadline; refusing creates until it is back'
  const onOutage = (databaseDown: boolean, cause: unknown) =>
    databaseDown ? log.error({ cause }, downMessage) : log.info('the database is back')
  const groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, limits, { onAttempt, onOutage })
  const queueRows = new Shares(limits.queueRows)
  const queueBytes = new Shares(limits.queueBytes)

  /** A caller's part of all rows or of all bytes, whichever is larger. */
  const portionOf = (caller: string) => Math.max(queueRows.portion(caller), queueBytes.portion(caller))

  return {
    create(plant, context) {
      const { caller, idempotencyKey: key } = context
      const { sent: bytes, held: heldBytes } = countBytes(plant)
      const writeId = key === undefined ? randomWriteId() : deriveWriteId(caller, key, writeContent(plant))
      const span = tracing?.activeSpan()
      const portion = portionOf(caller)
      const item = { id: plant.id, plant, writeId, bytes, portion, caller, idempotencyKey: key, span }
      if (!queueRows.fits(caller, 1) || !queueBytes.take(caller, heldBytes))
        return Promise.reject(new Failure('Overloaded'))
      const hasRow = queueRows.take(caller, 1)
      assert(hasRow, 'a row that fits can be taken')
      let isReleased = false
      const release = () => {
        assert(!isReleased, 'a create is released once')
        isReleased = true
        queueBytes.release(caller, heldBytes)
      }
      const { promise, resolve, reject } = Promise.withResolvers<Created>()
      groupCommit.submit(
        item,
        (stored, rows) => {
          queueRows.release(caller, 1)
          resolve({ stored, rows, release })
        },
        (error, rows) => {
          queueRows.release(caller, 1)
          release()
          const failure = toCreateFailure(error)
          failure.rows = rows
          reject(failure)
        }
      )
      return promise
    },
    refusalFor(caller) {
      const reason = groupCommit.refusal(portionOf(caller))
      if (reason) return new Failure(failureNames[reason])
      const fits = queueRows.fits(caller, 1) && queueBytes.fits(caller, rowBytes)
      return fits ? undefined : new Failure('Overloaded')
    },
    watch: () => groupCommit.watch(),
    get load() {
      return { ...groupCommit.load, rows: queueRows.held }
    },
    close: () => groupCommit.close()
  }
}

function toCreateFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  if (error instanceof NotCommitted) {
    const outcome = error.reason === 'missing' ? 'none' : undefined
    return new Failure(failureNames[error.reason], { cause: error, outcome })
  }
  if (breaksRule(error) && !isOfUnwrittenColumn(error)) return new Failure('RefusedPlant', { cause: error })
  // Group commit rejects with an error of PostgreSQL only if every attempt at the row was rolled back.
  return new Failure('Internal', { cause: error, outcome: 'none' })
}

/** Returns whether an error is that the table requires a column that the service does not write: the operator's fault. */
function isOfUnwrittenColumn(error: unknown): boolean {
  const { code, column } = error as { code?: string; column?: string }
  // One without `column` comes from a domain.
  return code === '23502' && column !== undefined && !writtenColumns.includes(column)
}
