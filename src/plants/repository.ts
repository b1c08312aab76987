/** The repository that the route sees: one create per call, written with others in one transaction. */
import type { FastifyBaseLogger } from 'fastify'
import { breaksRule } from '../database/errors.ts'
import { Failure } from '../failures.ts'
import { type AttemptOutcome, GroupCommit } from '../group-commit/group-commit.ts'
import type { Limits, Store } from '../group-commit/types.ts'
import { Shares } from '../shares.ts'
import type { Tracing } from '../tracing.ts'
import { countBytes, writeContent } from './columns.ts'
import type { NewPlant } from './schema.ts'
import type { PlantItem } from './sql-store.ts'
import { writtenColumns } from './statements.ts'
import { deriveWriteId, randomWriteId, type Stored, type WriteContext } from './write-id.ts'

/** A create that has succeeded. */
export interface Created {
  readonly stored: Stored
  /** Call it once, when the response no longer holds the plant's texts: until then, the plant has its room. */
  release(): void
}

/** The limits of creates. */
export interface WriteLimits extends Limits {
  /** Plants that wait for their outcome, or whose response is not taken. A large one counts as several. */
  readonly queueRows: number
}

/** The bytes of a plant that count as one. */
const bytesOfRow = 4_096
const downMessage =
  'the database has been unreachable for the write deadline; refusing creates until it is back'

interface Options {
  readonly limits: WriteLimits
  readonly log: Pick<FastifyBaseLogger, 'error' | 'info'>
  /** Called for every attempt of a batch, with its number of plants and its time in ms. */
  readonly onAttempt: (rows: number, ms: number, outcome: AttemptOutcome) => void
  readonly tracing?: Tracing | undefined
}

/** Where plants are stored. */
export class PlantRepository {
  readonly #groupCommit: GroupCommit<PlantItem, Stored>
  readonly #queueRows: number
  readonly #queue: Shares
  readonly #tracing: Tracing | undefined

  constructor(store: Store<PlantItem, Stored>, { limits, log, onAttempt, tracing }: Options) {
    const onOutage = (isDown: boolean, cause: unknown) =>
      isDown ? log.error({ cause }, downMessage) : log.info('the database is back')
    this.#groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, limits, { onAttempt, onOutage })
    this.#queueRows = limits.queueRows
    this.#queue = new Shares(limits.queueRows)
    this.#tracing = tracing
  }

  /**
   * Stores a plant. When the promise resolves, the plant is durable. Rejects, by the write deadline, with the Failure
   * DuplicatePlant, ReusedKey, RefusedPlant, Overloaded, Unavailable, DeadlineExceeded, OutcomeUnknown or Internal.
   */
  async create(plant: NewPlant, { caller, idempotencyKey: key }: WriteContext): Promise<Created> {
    const refusal = this.refusalFor(caller)
    if (refusal) throw refusal
    const bytes = countBytes(plant)
    const rows = Math.min(this.#queueRows, Math.ceil(bytes / bytesOfRow))
    if (!this.#queue.take(caller, rows)) throw new Failure('Overloaded')
    const release = () => this.#queue.release(caller, rows)
    const writeId = key === undefined ? randomWriteId() : deriveWriteId(caller, key, writeContent(plant))
    const span = this.#tracing?.activeSpan()
    const item = { id: plant.id, plant, writeId, bytes, caller, idempotencyKey: key, span }
    try {
      return { stored: await this.#groupCommit.submit(item), release }
    } catch (error) {
      release()
      throw toFailure(error as Error)
    }
  }

  /** Returns the Failure that any create of a caller would meet now: Overloaded, Unavailable, or undefined. */
  refusalFor(caller: string): Failure | undefined {
    const reason = this.#groupCommit.refusal(this.#queue.portion(caller))
    if (reason) return new Failure(reason)
    return this.#queue.fits(caller, 1) ? undefined : new Failure('Overloaded')
  }

  /** The plants that wait, how long a new one is expected to, and whether creates are refused because the database is away. */
  get load() {
    return this.#groupCommit.load
  }

  /** Refuses new creates, and resolves when every other create has its result. */
  close(): Promise<void> {
    return this.#groupCommit.close()
  }
}

function toFailure(error: Error): Failure {
  if (error instanceof Failure) return error
  const { code, column } = error as { code?: string; column?: string }
  // A column that the service does not write is required: the operator's fault. One without `column` comes from a domain.
  const isUnwritten = code === '23502' && column !== undefined && !writtenColumns.includes(column)
  if (breaksRule(error) && !isUnwritten) return new Failure('RefusedPlant', { cause: error })
  // Group commit gives an error that is no Failure only if every attempt at the row was rolled back.
  return new Failure('Internal', { cause: error, outcome: 'none' })
}
