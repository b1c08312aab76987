/** Ids are exact over int64; names and tags come back from the table as they were sent, or are refused: for any JSON. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { anyJson, anyNumber, anyText, type Json, objectOf, stringOf } from '../support/json-texts.ts'
import { type Field, fields, optionalFields } from '../support/plants.ts'
import { openSession } from '../support/postgres/database.ts'
import { failure, type Reply, success } from '../support/responses.ts'
import { send, startService } from '../support/service.ts'

const service = await startService(t)
const session = await openSession(t, service.databaseUrl, `set client_encoding = 'UTF8'`)

const storable = 'a string without U+0000 and without lone surrogates'
const isStorable = (json: Json) =>
  json.kind === 'string' && json.value.isWellFormed() && !json.value.includes('\0')

/** What each field must be: its rule, whether a value keeps it, and usual values. */
const rules: Record<'id' | Field, { rule: string; keeps(json: Json): boolean; usual: fc.Arbitrary<Json> }> = {
  id: {
    rule: 'an integer from -9223372036854775808 to 9223372036854775807',
    keeps: (json) => json.kind === 'number' && toInt64(json.text) !== undefined,
    usual: anyNumber
  },
  name: { rule: storable, keeps: isStorable, usual: stringOf(anyText) },
  tag: { rule: storable, keeps: isStorable, usual: stringOf(anyText) }
}
const allFields = ['id', ...fields] as const

/** Returns the integer of 64 bits that a JSON number stands for, or undefined, by exact arithmetic on its text. */
function toInt64(text: string): bigint | undefined {
  const [mantissa = '', power = '0'] = text.toLowerCase().split('e')
  const [front = '', back = ''] = mantissa.split('.')
  const numerator = BigInt(front.replace('-', '') + back) * (front.startsWith('-') ? -1n : 1n)
  if (numerator === 0n) return 0n
  const scale = BigInt(power.replace('+', '')) - BigInt(back.length)
  if (scale > 100n || scale < -2_000n) return undefined
  const factor = 10n ** (scale < 0n ? -scale : scale)
  if (scale < 0n && numerator % factor !== 0n) return undefined
  const value = scale < 0n ? numerator / factor : numerator * factor
  return BigInt.asIntN(64, value) === value ? value : undefined
}

/** What must come of a body: a row, or the messages of which one is told. */
type Verdict = { id: string; plant: Record<string, unknown> } | { messages: string[] }

function judge(root: Json): Verdict {
  if (root.kind !== 'object') return { messages: ['the body must be a JSON object'] }
  // Of several members with one key, the last one counts, as in JSON.parse.
  const given = new Map(root.members)
  const messages = allFields.flatMap((field) => {
    const json = given.get(field)
    if (json === undefined)
      return (optionalFields as string[]).includes(field) ? [] : [`${field} is required`]
    return rules[field].keeps(json) ? [] : [`${field} must be ${rules[field].rule}`]
  })
  if (messages.length > 0) return { messages }
  const values = fields.flatMap((field) => {
    const json = given.get(field)
    if (json === undefined) return []
    return [[field, json.kind === 'string' ? json.value : JSON.parse(json.text)]]
  })
  return { id: `${toInt64((given.get('id') as Json).text)}`, plant: Object.fromEntries(values) }
}

const hex = (value: unknown) => (value === undefined ? null : Buffer.from(`${value}`).toString('hex'))
const column = (field: Field) => `encode(convert_to(${field}::text, 'UTF8'), 'hex') as ${field}`
const selectAll = `select id::text as id, ${fields.map(column).join(', ')} from plants`
const sorted = (rows: { id: string }[]) => rows.sort((a, b) => (a.id < b.id ? -1 : 1))

/** Sends all bodies at once to an empty table; each must get what it deserves, and the table must have exactly their rows. */
async function check(bodies: { body: string | Uint8Array; verdict: Verdict }[]) {
  const ids = new Set<string>()
  // Which of two with one id comes first is not known.
  const unlike = bodies.filter(
    ({ verdict }) => !('id' in verdict) || (!ids.has(verdict.id) && ids.add(verdict.id))
  )
  await session.query('truncate plants')
  const replies = await Promise.all(unlike.map(({ body }) => service.post(body)))
  const expected = unlike.flatMap(({ verdict }, index) => {
    const found = replies[index] as Reply
    if ('id' in verdict) {
      same(found, success(verdict.plant))
      return [
        { id: verdict.id, ...Object.fromEntries(fields.map((field) => [field, hex(verdict.plant[field])])) }
      ]
    }
    const { message } = JSON.parse(found.body)
    const isOne = verdict.messages.includes(message)
    same(found, failure('InvalidPlant', { message: isOne ? message : verdict.messages[0] }))
    return []
  })
  same(sorted((await session.query(selectAll)).rows), sorted(expected))
}

function same(found: unknown, wanted: unknown) {
  if (!isDeepStrictEqual(found, wanted))
    throw new Error(`${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`)
}

/** Checks so many batches of bodies of an arbitrary; a counterexample, with its seed, is the failure's message. */
async function holds(t: Test, arbitrary: fc.Arbitrary<Json>, batches: number) {
  const batch = fc.array(arbitrary, { minLength: 1, maxLength: 60, size: 'max' })
  const property = fc.asyncProperty(batch, (all) =>
    check(all.map((root) => ({ body: root.text, verdict: judge(root) })))
  )
  const result = await fc.check(property, { numRuns: batches, interruptAfterTimeLimit: 60_000 })
  t.notOk(
    result.failed,
    result.failed ? (fc.defaultReportMessage(result) ?? '') : `${result.numRuns} batches`
  )
}

type Member = [Json & { kind: 'string' }, Json]
const member = (key: fc.Arbitrary<string>, json: fc.Arbitrary<Json>): fc.Arbitrary<Member> =>
  fc.tuple(stringOf(key), json)
const usual = (field: 'id' | Field) => member(fc.constant(field), rules[field].usual)
const name: Member = [
  { kind: 'string', text: '"name"', value: 'name' },
  { kind: 'string', text: '"n"', value: 'n' }
]

t.test('any number as the id counts by its exact value, however it is spelled, or is refused', async (t) => {
  await holds(t, objectOf(usual('id').map((id) => [name, id])), 15)
})

const numbers: [text: string, id: string | undefined][] = [
  ['1', '1'],
  ['1.0', '1'],
  ['1e3', '1000'],
  ['-0', '0'],
  ['-0.0e5', '0'],
  ['12.5E+01', '125'],
  ['1200e-2', '12'],
  ['9007199254740993', '9007199254740993'],
  ['9223372036854775807', '9223372036854775807'],
  ['9.223372036854775807e18', '9223372036854775807'],
  ['-9223372036854775808', '-9223372036854775808'],
  [`1.${'0'.repeat(400)}`, '1'],
  [`1${'0'.repeat(400)}e-400`, '1'],
  [`0e-${'9'.repeat(400)}`, '0'],
  ['9223372036854775808', undefined],
  ['-9223372036854775809', undefined],
  ['9223372036854775807.5', undefined],
  ['1.5', undefined],
  ['1e-1', undefined],
  ['1e19', undefined],
  [`1e${'9'.repeat(400)}`, undefined],
  ['9'.repeat(400), undefined],
  ['"1"', undefined],
  ['true', undefined],
  ['null', undefined],
  ['[1]', undefined]
]

for (const [text, id] of numbers)
  t.test(`an id of ${text.slice(0, 30)} is ${id ?? 'refused'}`, async (t) => {
    const verdict = id ? { id, plant: { name: 'n' } } : { messages: [`id must be ${rules.id.rule}`] }
    await check([{ body: `{"id":${text},"name":"n"}`, verdict }])
    t.pass()
  })

/** Each field once, in any order, some left out. */
const texts = fc
  .tuple(
    ...allFields.map((field) => (field === 'name' || field === 'id' ? usual(field) : fc.option(usual(field))))
  )
  .chain((all) => fc.shuffledSubarray(all.filter((one) => one !== null) as Member[], { minLength: 2 }))

t.test('any text as name and tag goes into the table as it is, or is refused', async (t) => {
  await holds(t, objectOf(texts), 15)
})

/** What is near to a field's name, or means something to JavaScript. */
const otherKeys = fc.constantFrom('ID', 'iddd', '\b0069d', '__proto__', 'constructor', 'write_id', '')
const anyMember = fc.oneof(
  ...allFields.map((field) => member(fc.constant(field), fc.oneof(rules[field].usual, anyJson))),
  member(otherKeys, anyJson),
  member(anyText, anyJson)
)
const crowded = fc.tuple(texts, fc.array(anyMember, { maxLength: 4 })).chain(([first, others]) => {
  const all = [...others, ...first]
  return fc.shuffledSubarray(all, { minLength: all.length })
})

t.test('repeated keys, unknown ones and values of any kind: the last of each field counts', async (t) => {
  await holds(t, objectOf(crowded), 15)
  await holds(t, anyJson, 3)
})

t.test('any bytes as a name are text in UTF-8, or refused', async (t) => {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const some = [0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xa0, 0xef, 0xf0, 0x9f, 0xf4, 0x8f, 0xff]
  let lastId = 0
  const property = fc.asyncProperty(fc.array(fc.constantFrom(...some), { maxLength: 6 }), async (bytes) => {
    const text = Buffer.from(bytes)
    const body = Buffer.concat([Buffer.from(`{"id":${++lastId},"name":"`), text, Buffer.from('"}')])
    const reply = await service.post(body)
    let name: string
    try {
      name = strict.decode(text)
    } catch {
      return same(reply, failure('MalformedBody', { message: 'the body is not valid UTF-8' }))
    }
    same(reply, success({ name }))
  })
  const result = await fc.check(property, { numRuns: 200 })
  t.notOk(result.failed, fc.defaultReportMessage(result) ?? '')
})

t.test('a name of a megabyte comes back', async (t) => {
  const plant = { name: '🌱é"\\\n'.repeat(75_000) }
  await check([{ body: JSON.stringify({ id: 1, ...plant }), verdict: { id: '1', plant } }])
  t.pass()
})

t.test('the tests know every field of the interface', async (t) => {
  const { body } = await send(`${service.url}/openapi.json`, { method: 'GET' })
  const { properties, required } = JSON.parse(body).components.schemas.NewPlant
  t.strictSame(Object.keys(properties).sort(), [...allFields].sort())
  const optional = Object.keys(properties).filter((field) => !required.includes(field))
  t.strictSame(optional.sort(), [...optionalFields].sort())
  for (const field of allFields) t.match(properties[field].description, rules[field].rule)
})
