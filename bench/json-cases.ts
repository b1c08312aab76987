/** Bodies of up to 1 MiB that take a reader of JSON the longest, compared with JSON.parse. */
import { maximumValues } from '../src/http/json.ts'

const size = 1_048_576

/** Repeats a part between a start and an end until the body is full; spaces fill what is left. */
function fill(start: string, part: string, end = '', most = Number.POSITIVE_INFINITY): Buffer {
  const room = size - Buffer.byteLength(start + end)
  const count = Math.min(most, Math.floor(room / Buffer.byteLength(part)))
  return Buffer.from(start + part.repeat(count) + end + ' '.repeat(room - count * Buffer.byteLength(part)))
}

/** As many parts as there may be values, of which each part has some. */
const mostParts = (values: number) => Math.floor((maximumValues - 4) / values)
const items = (part: string, values = 1) => fill('{"id":1.0,"x":[0', `,${part}`, ']}', mostParts(values))
const text = (part: string) => fill('{"id":1.0,"x":"', part, '"}')
const members = (part: string) => fill('{"id":1.0', `,${part}`, '}', mostParts(1))
const nested = (open: string, close: string) => items(`${open.repeat(990)}1${close.repeat(990)}`, 991)
const keys = Array.from(
  { length: maximumValues - 4 },
  (_, index) => `"${index.toString(36).padStart(520, 'k')}":1`
)

/** The bodies by name; each is an object whose member "id" is a number. */
export const cases: Record<string, Buffer> = {
  'a usual body': Buffer.from('{"id":9223372036854775807,"name":"Monstera","tag":"tropical"}'),
  'a plain id, one long string': fill('{"id":1,"x":"', 'x', '"}'),
  'one long string': text('x'),
  'one long string, two bytes a character': text('Ģ'),
  'one long string, three bytes a character': text('∢'),
  'one long string, a byte that ends in that of a quote': text('¢'),
  'escaped backslashes': text('\\\\'),
  'escaped quotes': text('\\"'),
  'escapes with four digits': text('\\u0041'),
  'an escape now and then': text('xx\\n'),
  'spaces before the id': fill('{"id":', ' ', '1.0}'),
  'spaces after the object': fill('{"id":1.0}', ' '),
  'spaces, not all ASCII': fill('{"x":"∢","id":1.0', ' ', '}'),
  'spaces between strings': items('""      '),
  'an id of a million digits': fill('{"id":', '1', '}'),
  'an id with a million zeros after the point': fill('{"id":1.', '0', '}'),
  'an id a hair above 1': fill('{"id":1.', '0', '1}'),
  'an id with a million zeros before its digit': fill('{"id":0.', '0', '1e1048500}'),
  'an id with a million zeros taken back': fill('{"id":1', '0', 'e-1048500}'),
  'an exponent of a million zeros': fill('{"id":1e', '0', '}'),
  'an exponent of a million digits': fill('{"id":1e-', '9', '}'),
  ids: members('"id":1.0'),
  'ids with an escape': members('"\\u0069d":1.0'),
  'ids of escapes': members('"\\u0069\\u0064":1.0'),
  'keys as long as escaped ids': members('"abcdefg":1'),
  'ids in objects': items('{"id":1.0}', 2),
  'ids in ids': items('{"id":{"id":1}}', 3),
  'empty keys': members('"":1'),
  'as many different keys as there is room for': Buffer.from(`{"id":1.0,${keys.join()}}`),
  arrays: items('[]'),
  objects: items('{}'),
  numbers: items('1'),
  strings: items('""'),
  literals: items('true'),
  'the other literals': items('false,null', 2),
  'arrays, 992 deep': nested('[', ']'),
  'objects, 992 deep': nested('{"a":', '}')
}
