/** JSON texts of every spelling, each with what it stands for: written from RFC 8259, not from the reader under test. */
import fc from 'fast-check'
import { Plant } from '../../src/plants/schema.ts'
import { type Field, fields, optionalFields, sampleOf } from './plants.ts'

/** A JSON value as it is written, and what is known of it. */
export type Node =
  | { kind: 'object'; text: string; members: [key: string, value: Node][] }
  | { kind: 'string'; text: string; value: string }
  | { kind: 'number'; text: string }
  | { kind: 'other'; text: string }

const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/)

/** Any sequence of UTF-16 code units: the whole of Unicode, U+0000, and surrogates with and without their other half. */
export const anyText = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
      { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) },
      {
        weight: 1,
        arbitrary: fc.constantFrom('\0', '\ud800', '\udfff', '"id":', '\\', '\ufeff', '\u2028', '\x7f')
      }
    ),
    { maxLength: 6 }
  )
  .map((parts) => parts.join(''))

const short: Record<string, string> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t'
}

/** Writes a string with this choice of escapes; what cannot stand for itself in UTF-8 or JSON is always escaped. */
function spell(value: string, choices: readonly number[]): string {
  let text = ''
  let at = 0
  for (const character of value) {
    const choice = choices[at++ % choices.length] ?? 0
    const isPlain = character >= ' ' && character !== '"' && character !== '\\' && character.isWellFormed()
    if (isPlain && choice < 6) text += character
    else if (choice % 2 === 0 && character in short) text += short[character]
    else {
      for (const unit of character.split('')) {
        const hex = unit.charCodeAt(0).toString(16).padStart(4, '0')
        text += `\\u${choice > 7 ? hex.toUpperCase() : hex}`
      }
    }
  }
  return `"${text}"`
}

const choices = fc.oneof(
  { weight: 3, arbitrary: fc.constant([0]) },
  { weight: 1, arbitrary: fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 7 }) }
)

/** Returns a JSON string for each text of an arbitrary, in any spelling. */
export const stringOf = (texts: fc.Arbitrary<string>): fc.Arbitrary<Node & { kind: 'string' }> =>
  fc.tuple(texts, choices).map(([value, how]) => ({ kind: 'string', text: spell(value, how), value }))

const whole = fc.oneof(
  fc.constant('0'),
  fc
    .tuple(fc.integer({ min: 1, max: 9 }), fc.stringMatching(/^[0-9]{0,25}$/))
    .map(([first, rest]) => `${first}${rest}`)
)
const exponent = fc
  .tuple(
    fc.constantFrom('e', 'E'),
    fc.constantFrom('', '+', '-'),
    fc.stringMatching(/^0{0,3}$/),
    fc.oneof(fc.nat({ max: 40 }).map(String), fc.constantFrom('400', '1000000000', '9'.repeat(30)))
  )
  .map((parts) => parts.join(''))
const anySpelling = fc
  .tuple(
    fc.constantFrom('', '-'),
    whole,
    fc.stringMatching(/^(\.[0-9]{1,22})?$/),
    fc.option(exponent, { nil: '' })
  )
  .map((parts) => parts.join(''))

const limits = [0n, 1n, 10n ** 15n, 2n ** 53n, 10n ** 18n, 2n ** 63n, 10n ** 19n, 2n ** 64n]
/** Integers at and around the limits, with the decimal point moved anywhere and zeros on both sides of it. */
const movedPoint = fc
  .tuple(
    fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc
        .tuple(fc.constantFrom(...limits), fc.bigInt({ min: -2n, max: 2n }), fc.constantFrom(1n, -1n))
        .map(([limit, step, sign]) => sign * (limit + step))
    ),
    fc.nat({ max: 25 }),
    fc.nat({ max: 5 }),
    fc.constantFrom('e', 'E'),
    fc.constantFrom('', '0', '000')
  )
  .map(([value, places, zeros, letter, leading]) => {
    const sign = value < 0n ? '-' : ''
    const text = `${value < 0n ? -value : value}`.padStart(places + 1, '0')
    const point = text.length - places
    const front = text.slice(0, point).replace(/^0+(?=\d)/, '')
    const back = text.slice(point) + '0'.repeat(zeros)
    return `${sign}${front}${back === '' ? '' : `.${back}`}${places === 0 ? '' : `${letter}+${leading}${places}`}`
  })

/** Any JSON number in any spelling. */
export const anyNumber = fc.oneof(anySpelling, movedPoint, fc.integer().map(String))

/** Returns the integer of 64 bits that a JSON number stands for, or undefined; by exact arithmetic on its text. */
export function toInt64(text: string): bigint | undefined {
  const [mantissa = '', power = '0'] = text.toLowerCase().split('e')
  const [front = '', back = ''] = mantissa.split('.')
  const numerator = BigInt(front.replace('-', '') + back) * (front.startsWith('-') ? -1n : 1n)
  if (numerator === 0n) return 0n
  const scale = BigInt(power.replace('+', '')) - BigInt(back.length)
  if (scale > 100n || scale < -1_100_000n) return undefined
  const factor = 10n ** (scale < 0n ? -scale : scale)
  if (scale < 0n && numerator % factor !== 0n) return undefined
  const value = scale < 0n ? numerator / factor : numerator * factor
  return BigInt.asIntN(64, value) === value ? value : undefined
}

/** Keys that look like an escaped `id` where they are written with an escape of one letter: `\b0069d`. */
const nearlyId = fc.constantFrom(...Object.keys(short).map((character) => `${character}0069d`))

const keys = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('id', ...fields) },
  { weight: 1, arbitrary: nearlyId },
  {
    weight: 1,
    arbitrary: fc.constantFrom('ID', '__proto__', 'constructor', 'toString', 'write_id', 'iddd', '')
  },
  { weight: 1, arbitrary: anyText }
)

const { value } = fc.letrec<{ value: Node }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    anyNumber.map((text): Node => ({ kind: 'number', text })),
    stringOf(fc.oneof(anyText, anyNumber)),
    fc.constantFrom('true', 'false', 'null').map((text): Node => ({ kind: 'other', text })),
    fc.tuple(space, fc.array(tie('value'), { maxLength: 3 })).map(
      ([blank, items]): Node => ({
        kind: 'other',
        text: `[${blank}${items.map(({ text }) => text).join(`${blank},`)}]`
      })
    ),
    objectOf(fc.array(fc.tuple(stringOf(keys), tie('value')), { maxLength: 4 }))
  )
}))

function objectOf(
  members: fc.Arbitrary<[Node & { kind: 'string' }, Node][]>
): fc.Arbitrary<Node & { kind: 'object' }> {
  return fc.tuple(space, space, members).map(([before, after, entries]) => ({
    kind: 'object',
    text: `{${before}${entries.map(([key, { text }]) => `${key.text}${after}:${before}${text}${after}`).join(`,${before}`)}}`,
    members: entries.map(([key, node]) => [key.value, node])
  }))
}

/** Any JSON value. */
export const anyJson = value

const member = (key: string, usual: fc.Arbitrary<Node>) =>
  fc.tuple(
    stringOf(fc.constant(key)),
    fc.oneof({ weight: 5, arbitrary: usual }, { weight: 1, arbitrary: value })
  )

/** Usual values of a field: any text, or values of another type. */
function usualOf(field: Field): fc.Arbitrary<Node> {
  if (Plant.properties[field].type === 'string') return stringOf(anyText)
  return fc.nat({ max: 20 }).map((number) => {
    const value = sampleOf(field, number)
    return { kind: typeof value === 'number' ? 'number' : 'other', text: `${value}` }
  })
}

const members = fields.map((field) => {
  const given = member(field, usualOf(field))
  return optionalFields.includes(field) ? fc.option(given) : given
})

/** Objects that are plants more often than not: their fields among any others, in any order. */
export const likelyPlant = objectOf(
  fc
    .tuple(
      member(
        'id',
        anyNumber.map((text) => ({ kind: 'number', text }))
      ),
      fc.tuple(...members),
      fc.array(fc.tuple(stringOf(keys), value), { maxLength: 3 }),
      fc.infiniteStream(fc.nat({ max: 1000 }))
    )
    .map(([id, given, others, order]) =>
      [id, ...given.filter((member) => member !== null), ...others]
        .map((member) => ({ member, at: order.next().value }))
        .sort((a, b) => a.at - b.at)
        .map(({ member }) => member)
    )
)

const numberNode = anyNumber.map((text): Node => ({ kind: 'number', text }))
const idMember = fc.tuple(stringOf(fc.constant('id')), numberNode)

/** Plants with several ids: repeated, spelled with escapes, in nested objects and in strings, and keys that are nearly one. */
export const crowdedPlant = objectOf(
  fc
    .tuple(
      fc.array(
        fc.oneof(
          idMember,
          fc.tuple(stringOf(nearlyId), numberNode),
          fc.tuple(stringOf(fc.constant('x')), objectOf(fc.tuple(idMember))),
          fc.tuple(stringOf(fc.constant('y')), stringOf(fc.constantFrom('"id":1', 'id', '{"id":1}')))
        ),
        { minLength: 1, maxLength: 4 }
      ),
      stringOf(fc.constant('name')),
      stringOf(fc.constant('n'))
    )
    .map(([members, key, name]) => [[key, name], ...members])
)
