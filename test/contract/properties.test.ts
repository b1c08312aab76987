/** Properties of the service that hold for any body, number, text and header. */
import { isDeepStrictEqual } from 'node:util'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { selectRows } from '../../harness/histories/history.ts'
import { checkResponses } from '../../harness/http/contract.ts'
import { exchange, request } from '../../harness/http/raw.ts'
import { type Field, fields, optionalFields } from '../../harness/plants.ts'
import {
  anyJson,
  anyNumber,
  anyText,
  crowdedPlant,
  likelyPlant,
  type Node,
  stringOf,
  toInt64
} from '../../harness/random/json-texts.ts'
import { failure, startService, success, token } from '../../harness/service/service.ts'
import { createJsonReader, maximumValues } from '../../src/body/json.ts'
import { Failure } from '../../src/failures/failure.ts'
import { int64, Plant } from '../../src/plants/schema.ts'

const service = await startService(t)
const readExactly = createJsonReader(['id'])
/** The plants that must be in the table, by id. */
const stored = new Map<string, Plant>()

const duplicate = failure(409, 'a plant with this id already exists')
const isStorable = (text: string) => Buffer.from(text).toString() === text && !text.includes('\0')

/** Whether a field may have this value, or be absent. */
function isValid(field: Field, node: Node | undefined): boolean {
  if (node === undefined) return optionalFields.includes(field)
  const schema = Plant.properties[field]
  if (schema.type === 'string') return node.kind === 'string' && isStorable(node.value)
  return Value.Check(schema, JSON.parse(node.text))
}

/** What must come of a body: a plant, or the fields that are at fault. */
function judge(root: Node) {
  if (root.kind !== 'object') return { faults: ['the body'] }
  const last = (name: string) => root.members.findLast(([key]) => key === name)?.[1]
  const id = last('id')
  const number = id?.kind === 'number' ? toInt64(id.text) : undefined
  const given = fields.map((field) => ({ field, node: last(field) }))
  const faults = given.filter(({ field, node }) => !isValid(field, node)).map(({ field }) => `${field}`)
  if (number === undefined) faults.push('id')
  if (faults.length > 0) return { faults }
  const values = given.flatMap(({ field, node }) => {
    if (node === undefined) return []
    return [[field, node.kind === 'string' ? node.value : JSON.parse(node.text)]]
  })
  return { id: `${number}`, plant: Object.fromEntries(values) as Plant }
}

/** Posts a body and compares the response with the judgement; remembers the row that must be there. */
async function check(root: Node) {
  const response = await service.post(root.text)
  const { faults, id, plant } = judge(root)
  if (faults !== undefined) {
    const { error, message } = JSON.parse(response.body)
    const field = faults.find((name) => message.startsWith(`${name} `))
    if (field === undefined) throw new Error(`${message}, where ${faults} are at fault`)
    same(response, failure(422, message))
    same(error, 422)
  } else if (stored.has(id)) same(response, duplicate)
  else {
    stored.set(id, plant)
    same(response, success(plant))
  }
}

function same(found: unknown, wanted: unknown) {
  if (!isDeepStrictEqual(found, wanted))
    throw new Error(`${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`)
}

/** Runs a property; a counterexample, with its seed, is the failure's message. */
async function holds<T>(t: Test, property: fc.IAsyncProperty<T>, numRuns: number) {
  const result = await fc.check(property, { numRuns })
  t.notOk(result.failed, result.failed ? (fc.defaultReportMessage(result) ?? '') : `${numRuns} runs`)
}

t.test('any JSON value as a body gets 200 or 422, as its last fields of each name deserve', async (t) => {
  await holds(t, fc.asyncProperty(likelyPlant, check), 1_000)
  await holds(t, fc.asyncProperty(crowdedPlant, check), 1_000)
  await holds(t, fc.asyncProperty(anyJson, check), 300)
})

t.test('any number as the id, however it is spelled, counts by its exact value', async (t) => {
  const plant = (text: string): Node => ({
    kind: 'object',
    text: `{"name":"n","id":${text}}`,
    members: [
      ['name', { kind: 'string', text: '"n"', value: 'n' }],
      ['id', { kind: 'number', text }]
    ]
  })
  await holds(
    t,
    fc.asyncProperty(anyNumber, (text) => check(plant(text))),
    1_000
  )
  for (const text of [
    `1e${'9'.repeat(100_000)}`,
    `-${'9'.repeat(100_000)}`,
    `1${'0'.repeat(100_000)}e-100000`,
    `0.${'0'.repeat(100_000)}12e100002`,
    `0e-${'9'.repeat(100_000)}`
  ]) {
    await check(plant(text))
  }
})

let lastId = 10n ** 17n

t.test('any text as name and tag goes into the table as it is, or is refused', async (t) => {
  const texts = fc.tuple(stringOf(anyText), stringOf(anyText))
  const property = fc.asyncProperty(texts, ([name, tag]) => {
    const id = `${++lastId}`
    return check({
      kind: 'object',
      text: `{"id":${id},"name":${name.text},"tag":${tag.text}}`,
      members: [
        ['id', { kind: 'number', text: id }],
        ['name', name],
        ['tag', tag]
      ]
    })
  })
  await holds(t, property, 700)
})

t.test('any bytes as a name are text in UTF-8, or refused', async (t) => {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const bytes = fc.array(
    fc.constantFrom(0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xa0, 0xef, 0xf0, 0x9f, 0xf4, 0x8f, 0xff)
  )
  const property = fc.asyncProperty(bytes, async (values) => {
    const id = `${++lastId}`
    const name = Buffer.from(values)
    const body = Buffer.concat([Buffer.from(`{"id":${id},"name":"`), name, Buffer.from('"}')])
    let text: string
    try {
      text = strict.decode(name)
    } catch {
      return same(await service.post(body), failure(400, 'the body is not valid UTF-8'))
    }
    stored.set(id, { name: text })
    same(await service.post(body), success({ name: text }))
  })
  await holds(t, property, 500)
})

t.test('the table holds exactly the plants of the responses with 200', async (t) => {
  const rows = (await service.rows(selectRows(int64.minimum, int64.maximum))).map(({ row }) => row)
  const sorted = (plants: { id: string }[]) => plants.sort((a, b) => (a.id < b.id ? -1 : 1))
  t.strictSame(sorted(rows), sorted([...stored].map(([id, plant]) => ({ id, ...plant }))))
  t.ok(rows.length > 500, `${rows.length} plants`)
})

const anyName = fc.oneof(
  fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/),
  fc.constantFrom(
    'Host',
    'Authorization',
    'content-type',
    'Content-Length',
    'transfer-encoding',
    'Connection'
  ),
  fc.constantFrom(
    'upgrade',
    'expect',
    'content-encoding',
    'trailer',
    'te',
    '__proto__',
    'constructor',
    'cookie'
  ),
  fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)), maxLength: 6 })
)
const anyValue = fc.oneof(
  fc.stringMatching(/^[\t -~\x80-\xff]{0,30}$/),
  fc.constantFrom(
    '',
    'chunked',
    'close',
    'keep-alive',
    'upgrade',
    '0',
    '-1',
    '100-continue',
    'identity',
    'application/json'
  ),
  fc.constantFrom(`Bearer ${token}`, 'test:80', '[::1]', 'a\r\n b', 'a\rb', 'a\nb', '\0'),
  fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)),
    maxLength: 20
  })
)
const anyField = fc
  .tuple(
    anyName,
    fc.constantFrom(':', ': ', ':\t ', ' : ', '::', ''),
    anyValue,
    fc.constantFrom('', ' ', '\t \t')
  )
  .map((parts) => parts.join(''))
const harmless = fc
  .tuple(
    fc.stringMatching(/^x-[!#$%&'*+.^_`|~0-9A-Za-z-]{0,20}$/),
    fc.stringMatching(/^[\t -~\x80-\xff]{0,30}$/)
  )
  .map(([name, value]) => `${name}:${value}`)

/** Sends a good request with these header lines among its own; returns the responses. */
async function sendWith(lines: string[], at: number) {
  const [start = '', ...own] = request(`{"id":${++lastId},"name":"n"}`).split('\r\n')
  own.splice(at, 0, ...lines)
  return checkResponses(await exchange(service.url, [[start, ...own].join('\r\n')], { halfClose: true }))
}

t.test('header fields of no meaning to the service change nothing', async (t) => {
  const property = fc.asyncProperty(fc.array(harmless), fc.nat({ max: 4 }), async (lines, at) => {
    const responses = await sendWith(lines, at)
    same(
      responses.map(({ status, body }) => [status, body]),
      [[200, '{"name":"n"}']]
    )
  })
  await holds(t, property, 300)
})

t.test('any header soup gets 200 or 400 in the shape of the interface', async (t) => {
  const property = fc.asyncProperty(
    fc.array(anyField, { minLength: 1 }),
    fc.nat({ max: 4 }),
    async (lines, at) => {
      const [first, ...others] = await sendWith(lines, at)
      if (first === undefined) throw new Error('no response')
      if (others.some(({ status }) => status === 200)) throw new Error('a second plant')
      if (first.status === 200) same(first.body, '{"name":"n"}')
    }
  )
  await holds(t, property, 1_500)
})

t.test('whatever the text, the reader returns what JSON.parse does, or throws its errors', async (t) => {
  const damaged = fc
    .tuple(
      likelyPlant,
      fc.nat(),
      fc.nat({ max: 3 }),
      fc.constantFrom('', '"', '\\', '{', '}', ',', 'e', '0', '\0')
    )
    .map(([{ text }, at, length, put]) => {
      const cut = at % (text.length + 1)
      return text.slice(0, cut) + put + text.slice(cut + length)
    })
  const texts = fc.oneof(
    damaged,
    anyText,
    anyJson.map(({ text }) => text),
    fc.json()
  )
  const property = fc.property(texts, (text) => {
    let plain: unknown
    try {
      plain = JSON.parse(Buffer.from(text).toString())
    } catch {
      plain = SyntaxError
    }
    const read = attempt(text)
    if (plain === SyntaxError || !isObject(plain) || typeof plain.id !== 'number') return same(read, plain)
    const { id, ...others } = read as Record<string, unknown>
    const { id: rounded, ...expected } = plain
    same(others, expected)
    if (Number(id) !== rounded) throw new Error(`${id}, not ${rounded}`)
  })
  const result = fc.check(property, { numRuns: 5_000 })
  t.notOk(result.failed, result.failed ? (fc.defaultReportMessage(result) ?? '') : '5,000 runs')
})

t.test('an id has the same value in a long text, where spaces are read four bytes at a time', async (t) => {
  const property = fc.property(
    fc.oneof(likelyPlant, crowdedPlant),
    fc.integer({ min: 256, max: 300 }),
    fc.stringMatching(/^[ \t\r\n]{0,9}$/),
    ({ text }, length, blank) => {
      const long = `{${blank}"x":${blank}"${'x'.repeat(length)}"${blank},${text.slice(1, -1)}${blank}}`
      const [wanted, found] = [text, long].map((text) => (attempt(text) as { id: unknown }).id)
      if (!isDeepStrictEqual(found, wanted)) throw new Error(`${typeof found}, not ${typeof wanted}`)
    }
  )
  const result = fc.check(property, { numRuns: 5_000 })
  t.notOk(result.failed, result.failed ? (fc.defaultReportMessage(result) ?? '') : '5,000 runs')
})

function attempt(text: string): unknown {
  try {
    return readExactly(Buffer.from(text))
  } catch (error) {
    return (error as Error).constructor
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

t.test('any depth within the limit of values is read, any other refused without an overflow', async (t) => {
  const nestings: [string, string, string][] = [
    ['[', '1', ']'],
    ['{"a":', '1', '}'],
    ['{"id":', '1', '}'],
    ['[{"id":', '"\\"[{"', '}]']
  ]
  const depths = fc.oneof(
    fc.integer({ min: 1, max: maximumValues + 100 }),
    fc.integer({ min: maximumValues + 101, max: 300_000 }),
    fc.integer({ min: maximumValues / 2 - 1, max: maximumValues / 2 + 1 }),
    fc.integer({ min: maximumValues - 2, max: maximumValues })
  )
  const property = fc.property(fc.constantFrom(...nestings), depths, ([open, core, close], depth) => {
    // One in another, and the innermost.
    const values = depth * (open.match(/[[{]/g) ?? []).length + 1
    const read = attempt(open.repeat(depth) + core + close.repeat(depth))
    if ((read === Failure) !== values > maximumValues) throw new Error(`${values} values: ${read}`)
    if (read === SyntaxError || read === RangeError) throw new Error(`${values} values`)
  })
  const result = fc.check(property, { numRuns: 200 })
  t.notOk(result.failed, result.failed ? (fc.defaultReportMessage(result) ?? '') : '200 runs')
  const response = failure(400, `the body has more than ${maximumValues} values`)
  for (const open of ['[', '{"a":', '{"id":', '[{"name":']) {
    t.strictSame(await service.post(open.repeat(1_048_576 / open.length)), response, open)
  }
})
