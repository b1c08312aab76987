/** The store in PostgreSQL: runs the statements for group commit, and says what became of each plant, by its write id. */
import type { Database } from '../database/database.ts'
import { diagnose } from '../database/errors.ts'
import type { AttemptFailure, FailureKind, RowFailure, RowResults } from '../group-commit/types.ts'
import type { PlantItem, PlantStore } from './repository.ts'
import * as sql from './statements.ts'
import { outcomeOf, type Stored } from './write-id.ts'

/** What these kinds mean for a row of a careful call, whose other rows were written. */
const ofOneRow: Partial<Record<FailureKind, FailureKind>> = {
  schemaMismatch: 'serverFault',
  unavailable: 'retryable',
  unknown: 'retryable'
}

const rowsOf = (tried: readonly { readonly item: PlantItem }[]) => tried.map(({ item }) => item.row)

/** Makes the store over the database. A statement may wait `limitMs` for a session, and take as long again. */
export function createSqlStore(database: Database, limitMs: number): PlantStore {
  /** Returns what a careful call says about a row. What was rolled back to its savepoint is not stored, whatever its error says. */
  function toResult(reported: sql.EachResult | undefined): 'created' | RowFailure | undefined {
    if (reported === undefined) return { kind: 'untried' }
    if (typeof reported === 'boolean') return reported ? 'created' : undefined
    const error = sql.toRowError(reported)
    database.countError(error)
    const { kind } = diagnose(error)
    return { kind: error.code === '57014' ? 'slow' : (ofOneRow[kind] ?? kind), error }
  }

  return {
    insert: (rows, lockMs, signal) =>
      orFailure(async () => {
        const statement = sql.createPlants(rowsOf(rows), lockMs)
        const written = await database.run<{ write_id: string }>(statement, limitMs, signal)
        const made = new Set(written.rows.map(({ write_id }) => write_id))
        // Of a request that has come twice, one has made the row, and the other is looked up.
        return rows.map(({ item }) => (made.delete(item.row.write_id) ? 'created' : undefined))
      }),

    async insertEach(rows, eachLimitMs, signal) {
      const result = await orFailure(async () => {
        const statement = sql.createEachPlant(rowsOf(rows), eachLimitMs)
        const sent = await database.run<{ results: string }>(statement, limitMs, signal)
        // The driver returns a result for each statement of a message.
        const last = (sent as unknown as (typeof sent)[]).at(-1)
        const results: sql.EachResult[] = JSON.parse(last?.rows[0]?.results ?? '[]')
        return rows.map((_, index) => toResult(results[index]))
      })
      if (!('kind' in result)) return result
      const { code, where } = result.error as { code?: string; where?: string }
      // It failed before the block: the table is locked, for all rows.
      if (code === '55P03' && where === undefined) return { ...result, kind: 'unavailable' }
      // The limit can pass before the block has read the row, if that is long.
      return code === '57014' && rows.length === 1 ? [{ kind: 'slow' }] : result
    },

    find: (rows, _, signal) =>
      orFailure(async () => {
        const statement = sql.findPlants(rows.map(({ item }) => item.id))
        const stored = await database.run<{ id: string; write_id: string }>(statement, limitMs, signal)
        const found = new Map(stored.rows.map(({ id, write_id }) => [BigInt(id), write_id]))
        return rows.map(({ item: { id, row }, mayBeStored }) =>
          outcomeOf(row.write_id, found.get(id), mayBeStored)
        )
      }),

    probe: () => database.run(sql.commitNothing, limitMs).then(() => undefined, diagnose)
  }
}

/** Turns a rejection into the failure of the attempt: a store's methods do not reject. */
const orFailure = (
  attempt: () => Promise<RowResults<Stored>>
): Promise<RowResults<Stored> | AttemptFailure> => attempt().catch(diagnose)
