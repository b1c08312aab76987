/**
 * The store in PostgreSQL. It runs the statements of statements.ts for group commit, and turns what
 * they return into a result for each plant:
 *
 * - `insert` returns the write ids of the rows that it made. A plant whose write id is not among
 *   them was left out, because its id is taken or a trigger dropped it.
 * - `insertEach` returns for each plant whether it was made, or its error.
 * - `find` returns the write ids of the rows that are there. By them, write-id.ts tells a plant's
 *   own row from another one, and so gives the outcome.
 *
 * If a statement fails as a whole, the kind of its error (errors.ts) says what that means for its
 * rows.
 */
import type { Database } from '../database/database.ts'
import { diagnose } from '../database/errors.ts'
import type { AttemptFailure, FailureKind, RowFailure, RowResults } from '../group-commit/types.ts'
import type { PlantItem, PlantStore } from './repository.ts'
import * as sql from './statements.ts'
import { outcomeOf, type Stored } from './write-id.ts'

/**
 * What these kinds become for one row of an attempt with savepoints. Elsewhere they hold for every
 * row of a statement, but here the other rows were written, so only this row is at fault. errors.ts
 * does the same for errors with a context (`kindsInFunctions`), except for `unknown`: there, nobody
 * has seen the statement roll back. The error of a row often has no context left, because
 * `toRowError` cuts the lines of the block.
 */
const ofOneRow: Partial<Record<FailureKind, FailureKind>> = {
  schemaMismatch: 'serverFault',
  unavailable: 'retryable',
  unknown: 'retryable'
}

const rowsOf = (tried: readonly { readonly item: PlantItem }[]) => tried.map(({ item }) => item.row)

/**
 * Makes the store over a database. A statement may wait `limitMs` for a session, and then take as
 * long again.
 */
export function createSqlStore(database: Database, limitMs: number): PlantStore {
  /**
   * Returns the result of a row from what the block has reported of it. A row with an error is not
   * stored, whatever the error is: it was rolled back to its savepoint.
   */
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
        // Two copies of one request have the same write id. One of them has made the row; `delete`
        // leaves the other to a look-up.
        return rows.map(({ item }) => (made.delete(item.row.write_id) ? 'created' : undefined))
      }),

    async insertEach(rows, eachLimitMs, signal) {
      const result = await orFailure(async () => {
        const statement = sql.createEachPlant(rowsOf(rows), eachLimitMs)
        const sent = await database.run<{ results: string }>(statement, limitMs, signal)
        // The driver returns a list here: a result for each statement of the message.
        const last = (sent as unknown as (typeof sent)[]).at(-1)
        const results: sql.EachResult[] = JSON.parse(last?.rows[0]?.results ?? '[]')
        return rows.map((_, index) => toResult(results[index]))
      })
      if (!('kind' in result)) return result
      const { code, where } = result.error as { code?: string; where?: string }
      // The statement failed before the block began, so the table itself is locked, for all rows.
      if (code === '55P03' && where === undefined) return { ...result, kind: 'unavailable' }
      // A long row can reach the time limit while it is parsed, before the block begins.
      return code === '57014' && rows.length === 1 ? [{ kind: 'slow' }] : result
    },

    find: (rows, _, signal) =>
      orFailure(async () => {
        const statement = sql.findPlants(rows.map(({ item }) => item.id))
        const stored = await database.run<{ id: string; write_id: string }>(
          statement,
          limitMs,
          signal
        )
        const found = new Map(stored.rows.map(({ id, write_id }) => [BigInt(id), write_id]))
        return rows.map(({ item: { id, row }, mayBeStored }) =>
          outcomeOf(row.write_id, found.get(id), mayBeStored)
        )
      }),

    probe: () => database.run(sql.commitNothing, limitMs).then(() => undefined, diagnose)
  }
}

/** Turns a rejection into a failure of the attempt, because a store's methods never reject. */
const orFailure = (
  attempt: () => Promise<RowResults<Stored>>
): Promise<RowResults<Stored> | AttemptFailure> => attempt().catch(diagnose)
