/** The insert of one plant, as everybody writes it. */
import { randomUUID } from 'node:crypto'
import type { NewPlant } from '../../src/plants/schema.ts'

const statement = {
  name: 'insert-plant',
  text: `
    insert into plants (id, name, tag, write_id)
    values ($1, $2, $3, $4)
    on conflict (id) do nothing`
}

/** Returns the statement, which the driver prepares once for each connection. */
export const insertOne = ({ id, name, tag }: NewPlant) => ({
  ...statement,
  values: [id, name, tag, randomUUID()]
})
