/** The server as everybody writes it: one prepared insert a request, on a pool of 10 connections. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { Failure } from '../../src/failures/failure.ts'
import { serve } from './serve.ts'

const insert = {
  name: 'insert-plant',
  text: `
    insert into plants (id, name, tag, write_id)
    values ($1, $2, $3, $4)
    on conflict (id) do nothing`
}

await serve(({ database }) => {
  const pool = new pg.Pool({ ...database, max: 10 })
  return {
    async create({ id, name, tag }) {
      const { rowCount } = await pool.query({ ...insert, values: [id, name, tag, randomUUID()] })
      if (rowCount === 0) throw new Failure('DuplicatePlant')
    }
  }
})
