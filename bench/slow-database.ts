/** A table that takes plants at a known rate, and the proof that it does. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { plant } from './plant.ts'

const batchRows = 256
const clients = 2

/**
 * Lets the table take `perSecond` plants at most, however many write at the same time: each statement is given the next
 * free stretch of one common schedule, and ends with it.
 */
export async function slowDown(url: string, perSecond: number): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(`
      create sequence free_at_us;
      create function take_time() returns trigger language plpgsql as $$
      declare
        now_us bigint := extract(epoch from clock_timestamp()) * 1000000;
        until_us bigint;
        added bigint;
      begin
        select count(*) into added from added_rows;
        if added = 0 then return null; end if;
        -- Of the session: it is given back before the sleep, so that only the schedule is taken in turn.
        perform pg_advisory_lock(1);
        select greatest(last_value, now_us) + added * 1000000 / ${perSecond} into until_us from free_at_us;
        perform setval('free_at_us', until_us);
        perform pg_advisory_unlock(1);
        perform pg_sleep((until_us - extract(epoch from clock_timestamp()) * 1000000) / 1000000.0);
        return null;
      end $$;
      create trigger take_time after insert on plants
        referencing new table as added_rows for each statement execute function take_time()`)
  })
}

/** Writes batches from two connections for some seconds, and returns how many plants a second the table took. */
export async function calibrate(url: string, seconds: number): Promise<number> {
  const began = performance.now()
  const until = began + seconds * 1000
  let rows = 0
  const write = () =>
    withClient(url, async (client) => {
      while (performance.now() < until) {
        const ids = Array.from({ length: batchRows }, () => randomUUID())
        const { rowCount } = await client.query(
          `insert into plants (id, name, tag, write_id)
           select hashtextextended(id::text, 0), $2, $3, id from unnest($1::uuid[]) as new (id)
           on conflict (id) do nothing`,
          [ids, plant.name, plant.tag]
        )
        rows += rowCount ?? 0
      }
    })
  await Promise.all(Array.from({ length: clients }, write))
  return rows / ((performance.now() - began) / 1000)
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
