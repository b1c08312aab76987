/** Damaged requests by the thousand, beside good ones: each response keeps the contract, and each 200 has stored its plant. */
import fc from 'fast-check'
import t from 'tap'
import { checkResponses } from '../support/contract.ts'
import { fields } from '../support/plants.ts'
import { startService } from '../support/service.ts'
import { exchange, type RawResponse, request } from '../support/sockets.ts'
import { tables } from './byte-cases.ts'

/** FUZZ_SEED and FUZZ_RUNS repeat a run, and make it longer. */
const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 2 ** 31)
const numRuns = Number(process.env.FUZZ_RUNS ?? 60)

const service = await startService(t, { DOCS: 'off' })
/** The bodies of all responses with 200. */
const created: string[] = []
let lastId = 2n ** 62n

/** The requests of the byte cases. A response to HEAD has no body, and other paths have other successes. */
const corpus = tables
  .flatMap(([, cases]) =>
    cases.map(([, parts]) => parts.filter((part) => typeof part === 'string').join(''))
  )
  .filter(
    (text) => text !== '' && text.length < 5_000 && !/HEAD|livez|readyz|openapi|docs/.test(text)
  )

const pieces =
  '|\r\n|\n|\0|\xff| |:|/|%|{|"|HTTP/1.0|content-length: 0\r\n|transfer-encoding: chunked\r\n|0\r\n\r\n'
const place = fc.double({ min: 0, max: 1, noNaN: true })
/** A part of a request is lost, or replaced by a piece, by itself twice, or by another request. */
const damage = fc.record({
  place,
  length: fc.oneof(fc.constantFrom(0, 1), fc.nat(100)),
  by: fc.oneof(
    fc.constantFrom(...pieces.split('|')),
    fc.constant('$&$&'),
    fc.constantFrom(...corpus)
  )
})
const exchangeOf = fc.record({
  good: fc.nat(3),
  damaged: fc.array(fc.tuple(fc.constantFrom(...corpus), fc.array(damage, { maxLength: 5 })), {
    minLength: 1,
    maxLength: 2
  }),
  cuts: fc.array(place, { maxLength: 4 })
})
type Exchange = typeof exchangeOf extends fc.Arbitrary<infer E> ? E : never

function apply(text: string, { place, length, by }: { place: number; length: number; by: string }) {
  const at = Math.floor(place * text.length)
  const found = text.slice(at, at + length)
  return text.slice(0, at) + by.replace('$&$&', () => found + found) + text.slice(at + length)
}

/** Sends good requests and damaged ones on one connection, in packets that are cut anywhere. */
async function send({ good, damaged, cuts }: Exchange) {
  const plants = Array.from({ length: good }, () => ({ id: ++lastId, name: `good ${lastId}` }))
  const goods = plants.map(({ id, name }) => request(`{"id":${id},"name":"${name}"}`))
  const text = [...goods, ...damaged.map(([whole, all]) => all.reduce(apply, whole))].join('')
  const ends = [
    0,
    ...cuts.map((cut) => Math.floor(cut * text.length)).sort((a, b) => a - b),
    text.length
  ]
  const packets = ends.slice(1).map((end, index) => text.slice(ends[index], end))
  const bytes = await exchange(service.url, packets, { halfClose: true })
  const responses = checkResponses(bytes)
  const isNew = ({ status, headers }: RawResponse) =>
    status === 200 && !('idempotent-replayed' in headers)
  created.push(...responses.filter(isNew).map(({ body }) => body))
  if (responses.length === 0 && !/^[\r\n]*$/.test(text)) throw new Error('no response')
  for (const [index, { name }] of plants.entries())
    if (responses[index]?.body !== `{"name":"${name}"}`) throw new Error(`a good one got ${bytes}`)
}

t.test(`FUZZ_SEED=${seed}: each response keeps the contract`, async (t) => {
  const together = fc.array(exchangeOf, { minLength: 16, maxLength: 16, size: 'max' })
  const property = fc.asyncProperty(together, async (all) => {
    await Promise.all(all.map(send))
  })
  const result = await fc.check(property, { seed, numRuns, endOnFailure: true })
  t.notOk(result.failed, `${result.errorInstance ?? ''}: ${JSON.stringify(result.counterexample)}`)
})

t.test('the table holds exactly the plants of the responses with 200', async (t) => {
  const rows = await service.rows(`select ${fields.join(', ')} from plants`)
  // An absent field is null.
  const withoutNulls = (_: string, value: unknown) => value ?? undefined
  const stored = rows.map((row) => JSON.stringify(row, withoutNulls))
  t.ok(stored.length > numRuns, `${stored.length} plants`)
  t.strictSame(stored.sort(), created.sort())
})

t.test('nothing was a fault of the service', async (t) => {
  const warnings = service.log().filter(({ level }) => level >= 40)
  t.strictSame(warnings, [])
})
