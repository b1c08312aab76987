/** Ids are exact over int64; names and tags come back from the table as they were sent, or are refused: for any JSON. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { about, type Field, fields, optionalFields } from '../support/plants.ts'
import { failure, type Reply, success } from '../support/responses.ts'
import { send, startService } from '../support/service.ts'

const service = await startService(t)

const int64 = 'an integer from -9223372036854775808 to 9223372036854775807'
const storable = about.name.rule
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

/** A body, and what must come of it: a row, or the message of its failure. */
interface Case {
  body: string
  row?: { id: bigint; plant: Partial<Record<Field, string>> } | undefined
  message?: string | undefined
}

const hex = (text: string | undefined) =>
  text === undefined ? null : Buffer.from(text).toString('hex')
const column = (field: Field) => `encode(convert_to(${field}::text, 'UTF8'), 'hex') as ${field}`

/** Sends all bodies at once to an empty table; each must get what it deserves, and the table must have exactly their rows. */
async function check(cases: Case[]) {
  // Which of two with one id comes first is not known.
  const unlike = [...new Map(cases.map((each) => [each.row?.id ?? each, each])).values()]
  await service.rows('truncate plants')
  const replies = await Promise.all(unlike.map(({ body }) => service.post(body)))
  for (const [index, { row, message = '' }] of unlike.entries())
    same(replies[index] as Reply, row ? success(row.plant) : failure('InvalidPlant', { message }))
  const expected = unlike.flatMap(({ row }) =>
    row
      ? [
          {
            id: `${row.id}`,
            ...Object.fromEntries(fields.map((field) => [field, hex(row.plant[field])]))
          }
        ]
      : []
  )
  const stored = await service.rows(
    `select id::text as id, ${fields.map(column).join(', ')} from plants`
  )
  const sorted = (rows: Record<string, unknown>[]) => rows.map((row) => JSON.stringify(row)).sort()
  same(sorted(stored), sorted(expected))
}

function same(found: unknown, wanted: unknown) {
  if (!isDeepStrictEqual(found, wanted))
    throw new Error(`${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`)
}

/** Checks so many batches of cases; a counterexample, with its seed, is the failure's message. */
async function holds(t: Test, arbitrary: fc.Arbitrary<Case>, batches: number) {
  const batch = fc.array(arbitrary, { minLength: 1, maxLength: 60, size: 'max' })
  const result = await fc.check(fc.asyncProperty(batch, check), { numRuns: batches })
  t.notOk(
    result.failed,
    result.failed ? (fc.defaultReportMessage(result) ?? '') : `${batches} batches`
  )
}

const numbers: [text: string, id: bigint | undefined][] = [
  ['1', 1n],
  ['1.0', 1n],
  ['1e3', 1_000n],
  ['-0', 0n],
  ['-0.0e5', 0n],
  ['12.5E+01', 125n],
  ['1200e-2', 12n],
  ['9007199254740991', 2n ** 53n - 1n],
  ['9007199254740992', 2n ** 53n],
  ['9007199254740993', 2n ** 53n + 1n],
  ['-9007199254740991', 1n - 2n ** 53n],
  ['-9007199254740993', -1n - 2n ** 53n],
  ['9223372036854775807', 2n ** 63n - 1n],
  ['9.223372036854775807e18', 2n ** 63n - 1n],
  ['-9223372036854775808', -(2n ** 63n)],
  [`1.${'0'.repeat(400)}`, 1n],
  [`1${'0'.repeat(400)}e-400`, 1n],
  [`0e-${'9'.repeat(400)}`, 0n],
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

/** A create whose id is written so. */
const withId = (text: string, id: bigint | undefined): Case => ({
  body: `{"name":"n","id":${text}}`,
  row: id === undefined ? undefined : { id, plant: { name: 'n' } },
  message: `id must be ${int64}`
})

for (const [text, id] of numbers)
  t.test(`an id of ${text.slice(0, 30)} is ${id ?? 'refused'}`, async (t) => {
    await check([withId(text, id)])
    t.pass()
  })

const limits = fc.constantFrom(0n, 10n ** 15n, 2n ** 53n, 10n ** 18n, 2n ** 63n, 2n ** 64n)
const nearLimits = fc
  .tuple(limits, fc.bigInt({ min: -2n, max: 2n }), fc.constantFrom(1n, -1n))
  .map(([limit, step, sign]) => sign * (limit + step))
/** An integer in any spelling: the point moved to the left, with zeros at the end, and what is then no integer any more. */
const spelledIds = fc
  .tuple(
    fc.oneof(nearLimits, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
    fc.nat({ max: 25 }),
    fc.nat({ max: 5 }),
    fc.constantFrom('e', 'E+00'),
    fc.boolean()
  )
  .map(([value, places, zeros, e, isWhole]) => {
    const digits = `${value < 0n ? -value : value}`.padStart(places + 1, '0')
    const at = digits.length - places
    const back = digits.slice(at) + '0'.repeat(zeros) + (isWhole ? '' : '1')
    const text = `${value < 0n ? '-' : ''}${digits.slice(0, at)}${back && `.${back}`}${e}${places}`
    return withId(text, isWhole && BigInt.asIntN(64, value) === value ? value : undefined)
  })

t.test(
  'any number as the id counts by its exact value, however it is spelled, or is refused',
  (t) => holds(t, spelledIds, 15)
)

/** Any sequence of UTF-16 code units: the whole of Unicode, U+0000, and surrogates with and without their other half. */
const anyText = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\0', '\ud800', '\udfff', '\u2028')
    ),
    {
      maxLength: 4
    }
  )
  .map((parts) => parts.join(''))
/** Writes a text as it is, or each of its code units by an escape. */
const write = (text: string, isEscaped: boolean) =>
  isEscaped
    ? `"${text
        .split('')
        .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
        .join('')}"`
    : JSON.stringify(text)
const texts = fc
  .tuple(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    anyText,
    fc.option(anyText),
    fc.boolean()
  )
  .map(([id, name, tag, isEscaped]): Case => {
    const plant = tag === null ? { name } : { name, tag }
    const members = Object.entries(plant).map(
      ([key, text]) => `${write(key, isEscaped)}: ${write(text, isEscaped)}`
    )
    const [broken] = Object.entries(plant).find(([, text]) => !isStorable(text)) ?? []
    return {
      body: `{${[...members, `"id":${id}`].join(',')}}`,
      row: broken ? undefined : { id, plant },
      message: `${broken} must be ${storable}`
    }
  })

t.test('any text as name and tag goes into the table as it is, or is refused', (t) =>
  holds(t, texts, 15)
)

const row = (name: string, tag?: string) => ({
  row: { id: 1n, plant: { name, ...(tag !== undefined && { tag }) } }
})
const others: [body: string, expected: Omit<Case, 'body'>][] = [
  ['{"id":2,"name":"m","id":1,"name":"n"}', row('n')],
  ['{"id":"2","name":1,"id":1,"name":"n"}', row('n')],
  ['{"\\u0069d":1,"n\\u0061me":"n"}', row('n')],
  ['{"id":1,"name":"n","ID":2,"write_id":"x","":null,"x":{"id":3}}', row('n')],
  ['{"id":1,"name":"n","__proto__":{"tag":"t"},"constructor":{"prototype":{}}}', row('n')],
  [' { "id" : 1 , "name" : "n" , "tag" : "" } ', row('n', '')],
  ['{"id":1,"name":"n","name":true}', { message: `name must be ${storable}` }],
  ['{"__proto__":{"id":1,"name":"n"}}', { message: 'id is required' }]
]

t.test(
  'repeated keys, unknown ones and values of any kind: the last of each field counts',
  async (t) => {
    for (const [body, expected] of others) await check([{ body, ...expected }])
    t.pass()
  }
)

t.test('any bytes as a name are text in UTF-8, or refused', async (t) => {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const some = [
    0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xa0, 0xef, 0xf0, 0x9f, 0xf4, 0x8f, 0xff
  ]
  let lastId = 1
  const property = fc.asyncProperty(
    fc.array(fc.constantFrom(...some), { maxLength: 6 }),
    async (bytes) => {
      const text = Buffer.from(bytes)
      const body = Buffer.concat([
        Buffer.from(`{"id":${++lastId},"name":"`),
        text,
        Buffer.from('"}')
      ])
      const reply = await service.post(body)
      let name: string
      try {
        name = strict.decode(text)
      } catch {
        return same(reply, failure('MalformedBody', { message: 'the body is not valid UTF-8' }))
      }
      same(reply, success({ name }))
    }
  )
  const result = await fc.check(property, { numRuns: 200 })
  t.notOk(result.failed, fc.defaultReportMessage(result) ?? '')
})

t.test('a name of a megabyte comes back', async (t) => {
  const plant = { name: '🌱é"\\\n'.repeat(75_000) }
  await check([{ body: JSON.stringify({ id: 1, ...plant }), row: { id: 1n, plant } }])
  t.pass()
})

t.test('the tests know every field of the interface', async (t) => {
  const { body } = await send(`${service.url}/openapi.json`, { method: 'GET' })
  const { properties, required } = JSON.parse(body).components.schemas.NewPlant
  t.strictSame(Object.keys(properties).sort(), ['id', ...fields].sort())
  const optional = Object.keys(properties).filter((field) => !required.includes(field))
  t.strictSame(optional.sort(), [...optionalFields].sort())
  const rules = {
    id: int64,
    ...Object.fromEntries(fields.map((field) => [field, about[field].rule]))
  }
  for (const [field, rule] of Object.entries(rules))
    t.ok(properties[field].description?.endsWith(`: ${rule}`), `${field}: ${rule}`)
})
