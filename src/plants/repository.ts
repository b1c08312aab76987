/**
 * The repository of plants, as the route sees it: one create per call. It admits a create if the
 * database serves and there is room for its caller, hands it to group commit, which writes it in
 * one transaction with others, and turns the store's errors into failures of the catalogue.
 */
import { breaksRule, lacksPartition } from '../database/errors.ts'
import { Failure } from '../failures.ts'
import { GroupCommit, type Hooks } from '../group-commit/group-commit.ts'
import type { Limits, Store } from '../group-commit/types.ts'
import { Shares } from '../shares.ts'
import type { TracedItem, Tracing } from '../tracing.ts'
import type { NewPlant } from './schema.ts'
import { type PlantRow, writtenColumns } from './statements.ts'
import type { Stored } from './write-id.ts'

/** A create as group commit takes it. */
export interface PlantItem extends TracedItem {
  readonly row: PlantRow
}

/** Where plants are written. */
export type PlantStore = Store<PlantItem, Stored>

/** A plant counts as one row of the queue for each begun 4 KiB of its size. */
const bytesOfRow = 4_096

/** Returns how many bytes a plant counts for: its texts as UTF-16, and 80 bytes for its ids. */
const countBytes = (plant: NewPlant) => Object.values(plant).reduce<number>(addText, 80)
const addText = (sum: number, value: unknown) =>
  sum + (typeof value === 'string' ? 2 * value.length : 0)

/** The repository of plants. */
export type PlantRepository = ReturnType<typeof createRepository>

/**
 * Makes the repository. `queueRows` is how many plants may wait for their outcome; a large plant
 * counts as several.
 */
export function createRepository(
  store: PlantStore,
  { queueRows, ...limits }: Limits & { readonly queueRows: number },
  tracing: Tracing | undefined,
  hooks: Hooks
) {
  const groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, limits, hooks)
  const queue = new Shares(queueRows)

  /**
   * Returns the Failure that any create of a caller would meet now, Overloaded or Unavailable, or
   * undefined.
   */
  function refusalFor(caller: string): Failure | undefined {
    const reason = groupCommit.refusal(queue.portion(caller))
    if (reason) return new Failure(reason)
    return queue.fits(caller, 1) ? undefined : new Failure('Overloaded')
  }

  /**
   * Stores a plant by a write with this id. Resolves when the plant is durable, or rejects with the
   * Failure DuplicatePlant, ReusedKey, RefusedPlant, Overloaded, Unavailable, DeadlineExceeded,
   * OutcomeUnknown or Internal. Either happens by the write deadline.
   */
  async function create(plant: NewPlant, caller: string, writeId: string) {
    const refusal = refusalFor(caller)
    if (refusal) throw refusal
    const bytes = countBytes(plant)
    const rows = Math.min(queueRows, Math.ceil(bytes / bytesOfRow))
    if (!queue.take(caller, rows)) throw new Failure('Overloaded')
    const item = {
      id: plant.id,
      row: { ...plant, write_id: writeId },
      bytes,
      span: tracing?.activeSpan()
    }
    try {
      return await groupCommit.submit(item)
    } catch (error) {
      throw toCreateFailure(error as Error)
    } finally {
      queue.release(caller, rows)
    }
  }

  return {
    create,
    refusalFor,
    /**
     * How many plants wait, how many ms a new one is expected to, and whether the database is down.
     */
    get load() {
      return groupCommit.load
    },
    /** Resolves when every plant has its outcome. Create nothing after this call. */
    close: () => groupCommit.close()
  }
}

/** Returns the Failure for a store's error about a plant that was not stored. */
function toCreateFailure(error: Error): Failure {
  if (error instanceof Failure) return error
  const { code, column, where } = error as { code?: string; column?: string; where?: string }
  // A null in a column that the service does not write is the operator's fault: the table requires
  // the column. An error without `column` comes from a domain, and so from the data.
  const isUnwritten = code === '23502' && column !== undefined && !writtenColumns.includes(column)
  if (breaksRule(error) && !isUnwritten) return new Failure('RefusedPlant', { cause: error })
  // PostgreSQL says what is wrong here only in its message. The log leaves that out, because it may
  // quote a row, so we give the error a message of our own.
  let cause = error
  if (lacksPartition(error)) cause = new Error('the table has no partition for the id', { cause })
  else if (code === '42501' && where === undefined)
    cause = new Error('row security refuses the row, or a right is missing', { cause })
  // An error of group commit that is no Failure means that each attempt at the row was rolled back.
  return new Failure('Internal', { cause, outcome: 'none' })
}
