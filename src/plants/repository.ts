/** The repository of plants over a store, as the route sees it: one create per call, written with others in one transaction. */
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

/** What plants are written to. */
export type PlantStore = Store<PlantItem, Stored>

/** The bytes of a plant that count as one. */
const bytesOfRow = 4_096

/** The bytes that a plant counts for: its texts as UTF-16, and 80 for its ids. */
const countBytes = (plant: NewPlant) => Object.values(plant).reduce<number>(addText, 80)
const addText = (sum: number, value: unknown) => sum + (typeof value === 'string' ? 2 * value.length : 0)

/** Where plants are stored. */
export type PlantRepository = ReturnType<typeof createRepository>

/** `queueRows`: plants that wait for their outcome. A large one counts as several. */
export function createRepository(
  store: PlantStore,
  { queueRows, ...limits }: Limits & { readonly queueRows: number },
  tracing: Tracing | undefined,
  hooks: Hooks
) {
  const groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, limits, hooks)
  const queue = new Shares(queueRows)

  /** Returns the Failure that any create of a caller would meet now: Overloaded, Unavailable, or undefined. */
  function refusalFor(caller: string): Failure | undefined {
    const reason = groupCommit.refusal(queue.portion(caller))
    if (reason) return new Failure(reason)
    return queue.fits(caller, 1) ? undefined : new Failure('Overloaded')
  }

  /**
   * Stores a plant by a write with this id. When the promise resolves, it is durable. Rejects, by the write deadline, with the
   * Failure DuplicatePlant, ReusedKey, RefusedPlant, Overloaded, Unavailable, DeadlineExceeded, OutcomeUnknown or Internal.
   */
  async function create(plant: NewPlant, caller: string, writeId: string) {
    const refusal = refusalFor(caller)
    if (refusal) throw refusal
    const bytes = countBytes(plant)
    const rows = Math.min(queueRows, Math.ceil(bytes / bytesOfRow))
    if (!queue.take(caller, rows)) throw new Failure('Overloaded')
    const item = { id: plant.id, row: { ...plant, write_id: writeId }, bytes, span: tracing?.activeSpan() }
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
    /** How many plants wait, how long a new one is expected to, in ms, and whether the database is down. */
    get load() {
      return groupCommit.load
    },
    /** Resolves when every plant has its outcome. Call it when nothing is created any more. */
    close: () => groupCommit.close()
  }
}

function toCreateFailure(error: Error): Failure {
  if (error instanceof Failure) return error
  const { code, column, where } = error as { code?: string; column?: string; where?: string }
  // A column that the service does not write is required: the operator's fault. One without `column` comes from a domain.
  const isUnwritten = code === '23502' && column !== undefined && !writtenColumns.includes(column)
  if (breaksRule(error) && !isUnwritten) return new Failure('RefusedPlant', { cause: error })
  // These reports say what is wrong only in a message, which the log leaves out, as it may quote a row.
  let cause = error
  if (lacksPartition(error)) cause = new Error('the table has no partition for the id', { cause })
  else if (code === '42501' && where === undefined)
    cause = new Error('row security refuses the row, or a right is missing', { cause })
  // Group commit gives an error that is no Failure only if every attempt at the row was rolled back.
  return new Failure('Internal', { cause, outcome: 'none' })
}
