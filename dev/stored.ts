/** Compares what the clients of a load were told with what is stored. */
import { deriveWriteId } from '../src/plants/write-id.ts'
import { type Create, keyOf, plantOf } from './load.ts'

/** A row of the table `plants`. */
export interface StoredPlant {
  id: number
  name: string
  tag: string | null
  write_id: string
}

/** The query for the plants whose ids are in a range: a row of JSON each, as a StoredPlant. */
export const selectPlants = (firstId = 1, lastId = Number.MAX_SAFE_INTEGER) => `
  select json_build_object('id', id, 'name', name, 'tag', tag, 'write_id', write_id) as plant
  from plants where id between ${firstId} and ${lastId}`

/**
 * Gives what must not be: each acknowledged plant is stored with its content, and nothing is stored twice or that nobody
 * sent. With a `caller`, whose creates had Idempotency-Keys, a row has the write id of its key.
 */
export function compare(creates: Create[], rows: StoredPlant[], caller?: string) {
  const stored = new Set(rows.map(({ id }) => id))
  const sent = new Set(creates.map(({ id }) => id))
  const acknowledged = creates.filter(({ error }) => error === 0)
  return {
    acknowledged,
    failed: creates.filter(({ error }) => error !== 0),
    violations: [
      ...list(
        'acknowledged, but not stored',
        acknowledged.filter(({ id }) => !stored.has(id))
      ),
      ...list(
        'stored with other content, or by another write',
        rows.filter((row) => !isAsSent(row, caller))
      ),
      ...list(
        'stored, but never sent',
        rows.filter(({ id }) => !sent.has(id))
      ),
      ...list('stored twice', rows.length === stored.size ? [] : rows)
    ]
  }
}

function isAsSent({ id, name, tag, write_id }: StoredPlant, caller: string | undefined): boolean {
  const plant = plantOf(id)
  const isSame = name === plant.name && tag === (plant.tag ?? null)
  return isSame && (caller === undefined || write_id === deriveWriteId(caller, keyOf(id)))
}

const shown = 5

/** Gives a line that tells what was found, none where nothing was. */
export function list(what: string, found: readonly object[]): string[] {
  return found.length === 0 ? [] : [`${what} (${found.length}): ${JSON.stringify(found.slice(0, shown))}`]
}
