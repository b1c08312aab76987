/** Damaged requests by the thousand, beside good ones: each response keeps the contract, and each 200 has stored its plant. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { checkResponses } from '../support/contract.ts'
import { createRequest, toPackets } from '../support/mutate.ts'
import { createRandom } from '../support/random.ts'
import { startService } from '../support/service.ts'
import { exchange, request } from '../support/sockets.ts'

/** FUZZ_SEED and FUZZ_REQUESTS repeat a run, and make it longer. */
const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31))
const total = Number(process.env.FUZZ_REQUESTS ?? 2_500)
const concurrency = 16

const service = await startService(t, { DOCS: 'off' })
/** The bodies of all responses with 200. */
const created: string[] = []
const faults: string[] = []
let sent = 0
let next = 0

/** Sends up to three good requests and one or two damaged ones on one connection. Its index decides what they are. */
async function fuzz(index: number) {
  const random = createRandom(seed + index)
  const good = Array.from({ length: random.oneIn(2) ? 0 : random.integer(4) }, (_, place) => {
    const name = `${index}.${place}`
    const id = 2n ** 62n + BigInt(4 * index + place)
    return { bytes: request(`{"id":${id},"name":"${name}"}`), response: JSON.stringify({ name }) }
  })
  const damaged = Array.from({ length: 1 + random.integer(2) }, (_, place) =>
    createRequest(random, `{"id":${2 * index + place},"name":"n${index}","tag":"t"}`)
  )
  const text = [...good.map(({ bytes }) => bytes), ...damaged].join('')
  const packets = toPackets(random, text)
  sent += good.length + damaged.length
  try {
    const bytes = await exchange(service.url, packets, { halfClose: true })
    const responses = checkResponses(bytes, { mayBeHead: text.includes('HEAD') })
    created.push(...responses.filter(({ status }) => status === 200).map(({ body }) => body))
    if (responses.length === 0 && !/^[\r\n]*$/.test(text)) throw new Error('no response')
    for (const [place, { response }] of good.entries())
      if (responses[place]?.body !== response)
        throw new Error(`response ${place} is not ${response}: ${bytes}`)
  } catch (error) {
    faults.push(`exchange ${index}: ${(error as Error).message}: ${JSON.stringify(packets)}`)
  }
}

async function work() {
  while (sent < total) await fuzz(next++)
}

t.test(`FUZZ_SEED=${seed} FUZZ_REQUESTS=${total}: each response keeps the contract`, async (t) => {
  await Promise.all(Array.from({ length: concurrency }, work))
  t.strictSame(faults.slice(0, 5), [])
})

t.test('the table holds exactly the plants of the responses with 200', async (t) => {
  const rows = await service.rows('select name, tag from plants')
  const stored = rows.map(({ name, tag }) => JSON.stringify(tag === null ? { name } : { name, tag }))
  t.ok(stored.length > total / 20, `${stored.length} plants`)
  t.strictSame(stored.sort(), created.sort())
})

t.test('nothing was a fault of the service', async (t) => {
  t.strictSame(
    service.log().filter(({ level }) => level >= 40),
    []
  )
})
