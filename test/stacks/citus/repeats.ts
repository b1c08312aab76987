/** What clients get if they use an id that is taken or send a request again, many at the same time. */
import { Failure, toResponse } from '../../../src/failures/failure.ts'
import type { Stack } from '../stack.ts'

const plants = 64
const rivals = [1, 2, 3, 4]
const { body: duplicate } = toResponse(new Failure('DuplicatePlant'))
const { body: reused } = toResponse(new Failure('ReusedKey'))

/** Returns a function that creates a plant, with an Idempotency-Key or without, and returns the body of its response. */
export function createClient(url: string, token: string) {
  return async (id: number, name: string, key?: string): Promise<string> => {
    const response = await fetch(`${url}/plants`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        ...(key && { 'idempotency-key': key })
      },
      body: JSON.stringify({ id, name })
    })
    return await response.text()
  }
}

/** Creates plants. Throws when a response is not what was promised. */
export async function checkRepeats(url: string, { takeIds, token }: Stack) {
  const create = createClient(url, await token())
  const together = (ids: number[], ask: (id: number, rival: number) => Promise<string>) =>
    Promise.all(ids.map((id) => Promise.all(rivals.map((rival) => ask(id, rival)))))

  const taken = takeIds(plants)
  for (const responses of await together(taken, (id, rival) => create(id, `rival ${rival}`))) {
    const winners = rivals.filter((rival) => responses[rival - 1] === `{"name":"rival ${rival}"}`)
    const losers = responses.filter((response) => response === duplicate)
    if (winners.length !== 1 || losers.length !== rivals.length - 1)
      throw new Error(`rivals got ${responses}`)
  }
  const late = await Promise.all(taken.map((id) => create(id, 'late')))
  expect('an id that is taken', late, duplicate)

  const ids = takeIds(plants)
  const keyed = (id: number, name = 'keyed', key = `key${id}`) => create(id, name, key)
  const forEach = (ask: (id: number) => Promise<string>) => Promise.all(ids.map(ask))
  const same = '{"name":"keyed"}'
  expect('the same request, several times at once', (await together(ids, (id) => keyed(id))).flat(), same)
  expect('the same request again', await forEach((id) => keyed(id)), same)
  expect('the same key with other content', await forEach((id) => keyed(id, 'other')), reused)
  expect('another key', await forEach((id) => keyed(id, 'keyed', 'another')), duplicate)
}

function expect(what: string, responses: string[], expected: string) {
  const other = responses.find((response) => response !== expected)
  if (other !== undefined) throw new Error(`${what} got ${other} instead of ${expected}`)
}
