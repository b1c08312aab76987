/** What the compared servers store plants by: the service's group commit, or one insert a request. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Config } from '../../src/config.ts'
import { Database } from '../../src/database/pool.ts'
import { createLogger } from '../../src/log.ts'
import { openRepository } from '../../src/plants/plugin.ts'
import type { NewPlant } from '../../src/plants/schema.ts'

/** What a client sends, as a server without exact ids reads it. */
export interface Body {
  id: number
  name: string
  tag?: string
}

/** Returns the plant of a body; its id is exact up to 2^53. */
export const toPlant = ({ id, ...fields }: Body) => ({ id: BigInt(id), ...fields })

/** As much of a repository as these servers use. */
export interface Repository {
  create(plant: ReturnType<typeof toPlant>, context: { caller: string }): Promise<{ release(): void }>
}

/** The insert of one plant, as everybody writes it. */
export const insertText = `
  insert into plants (id, name, tag, write_id)
  values ($1, $2, $3, $4)
  on conflict (id) do nothing`

/** Returns the statement, which the driver prepares once for each connection. */
export const insertOne = ({ id, name, tag }: NewPlant) => ({
  name: 'insert-plant',
  text: insertText,
  values: [id, name, tag, randomUUID()]
})

/** Opens group commit as the service has it. */
export function openGroupCommit(config: Config): Repository {
  const log = createLogger('silent')
  const observer = { onStored: () => {}, onAttempt: () => {} }
  return openRepository(new Database(config.database.value, log), config, log, observer).plants
}

/** Opens a pool of 10 connections, the driver's default, with one prepared insert for each plant. */
export function openInserts(config: Config): Repository {
  const pool = new pg.Pool(config.database.value)
  return { create: (plant) => pool.query(insertOne(plant)).then(() => ({ release() {} })) }
}
