/** What clients get if they use an id that is taken or send a request again, many at the same time. */
import { createPlant } from '../../../support/post.ts'
import { Failure, toResponse } from '../../../../src/failures/failure.ts'
import type { Stack } from '../stack.ts'

const plants = 64
const rivals = [1, 2, 3, 4]
const duplicate = `400 ${toResponse(new Failure('DuplicatePlant')).body}`
const reused = `400 ${toResponse(new Failure('ReusedKey')).body}`

/** Returns a function that creates a plant, with an Idempotency-Key or without, and returns its response. */
export function createClient(url: string, token: string) {
  return (id: number, name: string, key?: string) =>
    createPlant(url, token, { id, name }, key === undefined ? {} : { 'idempotency-key': key })
}

/** Creates plants. Throws when a response is not what was promised. */
export async function checkRepeats(url: string, { takeIds, token }: Stack) {
  const create = createClient(url, await token())
  const together = (ids: number[], ask: (id: number, rival: number) => Promise<string>) =>
    Promise.all(ids.map((id) => Promise.all(rivals.map((rival) => ask(id, rival)))))

  const taken = takeIds(plants)
  for (const responses of await together(taken, (id, rival) => create(id, `rival ${rival}`))) {
    const winners = rivals.filter((rival) => responses[rival - 1] === `200 {"name":"rival ${rival}"}`)
    const losers = responses.filter((response) => response === duplicate)
    if (winners.length !== 1 || losers.length !== rivals.length - 1)
      throw new Error(`rivals got ${responses}`)
  }
  const late = await Promise.all(taken.map((id) => create(id, 'late')))
  expect('an id that is taken', late, duplicate)

  const ids = takeIds(plants)
  const keyed = (id: number, name = 'keyed', key = `key${id}`) => create(id, name, key)
  const forEach = (ask: (id: number) => Promise<string>) => Promise.all(ids.map(ask))
  const same = '200 {"name":"keyed"}'
  expect('the same request, several times at once', (await together(ids, (id) => keyed(id))).flat(), same)
  expect('the same request again', await forEach((id) => keyed(id)), same)
  expect('the same key with other content', await forEach((id) => keyed(id, 'other')), reused)
  expect('another key', await forEach((id) => keyed(id, 'keyed', 'another')), duplicate)
}

function expect(what: string, responses: string[], expected: string) {
  const other = responses.find((response) => response !== expected)
  if (other !== undefined) throw new Error(`${what} got ${other} instead of ${expected}`)
}
