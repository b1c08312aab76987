/** JSON texts of every spelling, each with what it stands for: written from RFC 8259, not from the reader under test. */
import fc from 'fast-check'

/** A JSON value as it is written, and what is known of it. */
export type Json =
  | { kind: 'object'; text: string; members: [key: string, value: Json][] }
  | { kind: 'string'; text: string; value: string }
  | { kind: 'number'; text: string }
  | { kind: 'other'; text: string }

/** Any sequence of UTF-16 code units: the whole of Unicode, U+0000, and surrogates with and without their other half. */
export const anyText = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
      { weight: 3, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
      { weight: 1, arbitrary: fc.nat({ max: 0xffff }).map((unit) => String.fromCharCode(unit)) },
      { weight: 1, arbitrary: fc.constantFrom('\0', '\ud800', '\udfff', '"id":1', '\\', '\ufeff', '\u2028') }
    ),
    { maxLength: 5 }
  )
  .map((parts) => parts.join(''))

/** The escapes of one letter. */
const short: Record<string, string> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  '\b': 'b',
  '\f': 'f',
  '\n': 'n',
  '\r': 'r',
  '\t': 't'
}

/** Writes a string by these choices for its characters; what cannot stand for itself is always escaped. */
function spell(value: string, choices: readonly number[]): string {
  const characters = [...value].map((character, index) => {
    const choice = choices[index % choices.length] ?? 0
    const isPlain = character >= ' ' && character !== '"' && character !== '\\' && character.isWellFormed()
    if (isPlain && choice < 6) return character
    if (character in short && choice % 2 === 0) return `\\${short[character]}`
    const units = character.split('').map((unit) => unit.charCodeAt(0).toString(16).padStart(4, '0'))
    return units.map((hex) => `\\u${choice > 7 ? hex.toUpperCase() : hex}`).join('')
  })
  return `"${characters.join('')}"`
}

const choices = fc.oneof(fc.constant([0]), fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 7 }))

/** A JSON string for each text of an arbitrary, in any spelling. */
export const stringOf = (texts: fc.Arbitrary<string>): fc.Arbitrary<Json & { kind: 'string' }> =>
  fc.tuple(texts, choices).map(([value, how]) => ({ kind: 'string', text: spell(value, how), value }))

const digits = (maxLength: number) => fc.stringMatching(new RegExp(`^[0-9]{0,${maxLength}}$`))
const exponent = fc.oneof(
  fc.integer({ min: -40, max: 40 }).map((power) => `e${power}`),
  fc.nat({ max: 40 }).map((power) => `E+00${power}`),
  fc.constantFrom('e-400', 'e1000000000', `e-${'9'.repeat(30)}`)
)
const anySpelling = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), digits(25), digits(400)),
    fc.oneof(fc.constant(''), digits(22), fc.constantFrom('0', '0'.repeat(400))),
    fc.option(exponent, { nil: '' })
  )
  .map(([sign, front, back, power]) => {
    const whole = front.replace(/^0+(?=\d)/, '') || '0'
    return `${sign}${whole}${back === '' ? '' : `.${back}`}${power}`
  })

const limits = [0n, 1n, 10n ** 15n, 2n ** 53n, 10n ** 18n, 2n ** 63n, 2n ** 64n]
const nearLimits = fc
  .tuple(fc.constantFrom(...limits), fc.bigInt({ min: -2n, max: 2n }), fc.constantFrom(1n, -1n))
  .map(([limit, step, sign]) => sign * (limit + step))
/** Integers at and around the limits, with the decimal point moved to the left and zeros at the end. */
const movedPoint = fc
  .tuple(
    fc.oneof(nearLimits, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
    fc.nat({ max: 25 }),
    fc.nat({ max: 5 })
  )
  .map(([value, places, zeros]) => {
    const text = `${value < 0n ? -value : value}`.padStart(places + 1, '0')
    const back = text.slice(text.length - places) + '0'.repeat(zeros)
    const [front, fraction] = places === 0 ? [text, '0'.repeat(zeros)] : [text.slice(0, -places), back]
    return `${value < 0n ? '-' : ''}${front}${fraction && `.${fraction}`}${places === 0 ? '' : `e${places}`}`
  })
  .map((text) => text.replace(/^(-?)0+(?=\d)/, '$1'))

/** Any JSON number in any spelling, often an integer of 64 bits or nearly one. */
export const anyNumber = fc
  .oneof(anySpelling, movedPoint, nearLimits.map(String), fc.integer().map(String))
  .map((text): Json => ({ kind: 'number', text }))

/** Any JSON value. */
export const { value: anyJson } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    anyNumber,
    stringOf(anyText),
    fc.constantFrom('true', 'false', 'null').map((text): Json => ({ kind: 'other', text })),
    fc.array(tie('value'), { maxLength: 3 }).map((items): Json => {
      return { kind: 'other', text: `[ ${items.map(({ text }) => text).join(' ,')}]` }
    }),
    objectOf(fc.array(fc.tuple(stringOf(fc.oneof(fc.constantFrom('id', 'name'), anyText)), tie('value'))))
  )
}))

/** A JSON object of these members, with any white space around them. */
export function objectOf(members: fc.Arbitrary<[Json & { kind: 'string' }, Json][]>) {
  const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/)
  return fc.tuple(space, space, members).map(([before, after, all]): Json & { kind: 'object' } => ({
    kind: 'object',
    text: `${after}{${before}${all.map(([key, { text }]) => `${key.text}${after}:${before}${text}${after}`).join(`,${before}`)}}${before}`,
    members: all.map(([key, json]) => [key.value, json])
  }))
}
