/** Damaged requests by the thousand: the contract holds for every response. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { checkResponses } from '../../harness/http/contract.ts'
import { exchange, request } from '../../harness/http/raw.ts'
import { createRandom } from '../../harness/random/random.ts'
import { startService } from '../../harness/service/service.ts'
import { createRequest, toPackets } from './mutate.ts'

const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31))
const total = Number(process.env.FUZZ_REQUESTS ?? 20_000)
const concurrency = 32

t.comment(`FUZZ_SEED=${seed} FUZZ_REQUESTS=${total}`)

const service = await startService(t, { DOCS: 'off' })
const created: string[] = []
const faults: string[] = []
let sent = 0
let next = 0

/** Every exchange has a seed of its own, so that each is the same whatever else runs. */
async function fuzz(index: number) {
  const random = createRandom(seed + index)
  const whole = Array.from({ length: random.oneIn(2) ? 0 : random.integer(4) }, (_, place) => {
    const name = `${index}.${place}`
    return {
      response: JSON.stringify({ name }),
      bytes: request(`{"id":${2n ** 62n + BigInt(4 * index + place)},"name":"${name}"}`)
    }
  })
  const damaged = Array.from({ length: 1 + random.integer(2) }, (_, place) =>
    createRequest(random, `{"id":${2 * index + place},"name":"n${index}","tag":"t"}`)
  )
  const text = [...whole.map(({ bytes }) => bytes), ...damaged].join('')
  const packets = toPackets(random, text)
  sent += whole.length + damaged.length
  try {
    const bytes = await exchange(service.url, packets, { halfClose: true })
    const responses = checkResponses(bytes, { mayBeHead: text.includes('HEAD') })
    created.push(...responses.filter(({ status }) => status === 200).map(({ body }) => body))
    if (responses.length === 0 && !/^[\r\n]*$/.test(text)) throw new Error('no response')
    for (const [place, { response }] of whole.entries()) {
      if (responses[place]?.body !== response)
        throw new Error(`response ${place} is not ${response}: ${bytes}`)
    }
  } catch (error) {
    const { message } = error as Error
    faults.push(`FUZZ_SEED=${seed}, exchange ${index}, ${message}: ${JSON.stringify(packets)}`)
  }
}

async function work() {
  while (sent < total) await fuzz(next++)
}

await t.test('whatever is sent, each response keeps the contract', { timeout: 0 }, async (t) => {
  await Promise.all(Array.from({ length: concurrency }, work))
  for (const fault of faults.slice(0, 5)) t.comment(fault)
  t.equal(faults.length, 0)
})

t.test('the service still serves', async (t) => {
  const bytes = await exchange(service.url, [request('{"id":-1,"name":"last"}')], { halfClose: true })
  const found = checkResponses(bytes).map(({ status, body }) => [status, body])
  t.strictSame(found, [[200, '{"name":"last"}']])
  created.push('{"name":"last"}')
})

t.test('the table holds exactly the plants of the responses with 200', async (t) => {
  const rows = await service.rows('select name, tag from plants')
  const stored = rows.map(({ name, tag }) => JSON.stringify(tag === null ? { name } : { name, tag }))
  t.ok(stored.length > 1_000 || total < 20_000, `${stored.length} plants`)
  t.strictSame(stored.sort(), created.sort())
})

t.test('nothing was an internal error', async (t) => {
  const faults = service.log().filter(({ level }) => level >= 40)
  t.strictSame(faults, [])
})
