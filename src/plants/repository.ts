/** The repository that the route sees: one create per call, written with others in one transaction. */
import type { FastifyBaseLogger } from 'fastify'
import { breaksRule } from '../database/errors.ts'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure } from '../failures/failure.ts'
import { GroupCommit } from '../group-commit/group-commit.ts'
import type { AttemptReport, Limits, Store } from '../group-commit/types.ts'
import { Shares } from '../shared/shares.ts'
import { NotCommitted, type reasons } from '../shared/write-failure.ts'
import type { Tracing } from '../tracing/open-telemetry.ts'
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
  /** Call it when its response no longer holds the plant's texts: until then, their bytes count. */
  release(): void
}

export interface PlantRepository {
  /**
   * Stores a plant. When the promise resolves, the plant is durable. Rejects, by the write deadline, with the Failure
   * DuplicatePlant, ReusedKey, RefusedPlant, Overloaded, Unavailable, DeadlineExceeded, OutcomeUnknown, ShuttingDown or Internal.
   */
  create(plant: NewPlant, context: WriteContext): Promise<Created>
  /** Returns the Failure that any create of a caller would meet now, Overloaded, Unavailable or ShuttingDown; undefined for none. */
  writeRefusal(caller: string): Failure | undefined
  /** Call it while the database cannot be reached, with the time since when, by `performance.now()`: a whole deadline is an outage. */
  noteAway(since: number): void
  readonly load: QueueStats
  close(): Promise<void>
}

/** Plants that wait for their outcome, the bytes of those whose response is not taken, and what keeps them waiting. */
export type QueueStats = GroupCommit<never, never>['load']

/** Makes a repository that reports what it does. */
export type MakeRepository = (log: FastifyBaseLogger, observer: Observer) => PlantRepository

/** Called for every create that succeeds, and for every attempt of a batch. */
export interface Observer {
  onStored(stored: Stored): void
  onAttempt(report: AttemptReport): void
}

const byReason: Record<keyof typeof reasons, FailureName> = {
  full: 'Overloaded',
  closed: 'ShuttingDown',
  databaseDown: 'Unavailable',
  expired: 'DeadlineExceeded',
  unknown: 'OutcomeUnknown',
  missing: 'Internal'
}

/** The limits of group commit, and what may wait for a response: rows, and their bytes. */
export interface WriteLimits extends Limits {
  readonly queueRows: number
  readonly queueBytes: number
}

/** Makes the repository over a store. */
export function createPlantRepository(
  store: Store<PlantItem, Stored>,
  limits: WriteLimits,
  log: Pick<FastifyBaseLogger, 'error' | 'info'>,
  { onStored, onAttempt }: Observer,
  tracing?: Tracing
): PlantRepository {
  const away = 'the database is away for longer than the write deadline: creates are refused until it is back'
  const onOutage = (databaseDown: boolean, cause: unknown) =>
    databaseDown ? log.error({ cause }, away) : log.info('the database is back')
  const groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, limits, { onAttempt, onOutage })
  const queueRows = new Shares(limits.queueRows)
  const queueBytes = new Shares(limits.queueBytes)

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
      queueRows.take(caller, 1)
      const release = () => queueBytes.release(caller, heldBytes)
      const { promise, resolve, reject } = Promise.withResolvers<Created>()
      groupCommit.submit(
        item,
        (stored, rows) => {
          queueRows.release(caller, 1)
          onStored(stored)
          resolve({ stored, rows, release })
        },
        (error, rows) => {
          queueRows.release(caller, 1)
          release()
          reject(Object.assign(toCreateFailure(error), { rows }))
        }
      )
      return promise
    },
    writeRefusal(caller) {
      const reason = groupCommit.refusal(portionOf(caller))
      if (reason) return new Failure(byReason[reason])
      const fits = queueRows.fits(caller, 1) && queueBytes.fits(caller, rowBytes)
      return fits ? undefined : new Failure('Overloaded')
    },
    noteAway: (since) => groupCommit.noteAway(since),
    get load() {
      return { ...groupCommit.load, rows: queueRows.held, bytes: queueBytes.held }
    },
    close: () => groupCommit.close()
  }
}

function toCreateFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  if (error instanceof NotCommitted) {
    const outcome = error.reason === 'missing' ? 'none' : undefined
    return new Failure(byReason[error.reason], { cause: error, outcome })
  }
  if (breaksRule(error) && !requiresOther(error)) return new Failure('RefusedPlant', { cause: error })
  // What is final was reported by PostgreSQL, which has rolled back the only attempts that there were.
  return new Failure('Internal', { cause: error, outcome: 'none' })
}

/** Returns whether the table requires a column that the service does not write. */
function requiresOther(error: unknown): boolean {
  const { code, column, where } = error as { code?: string; column?: string; where?: string }
  // With a context, it is a statement of a trigger; without a column, a domain.
  return code === '23502' && where === undefined && column !== undefined && !writtenColumns.includes(column)
}
