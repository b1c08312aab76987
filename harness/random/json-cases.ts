/** Bodies of up to 1 MiB that take a reader of JSON the longest, compared with JSON.parse. */

import { maximumValues } from '../../src/body/json.ts'

const size = 1_048_576

/** Repeats a part between a start and an end until the body is full, or so often; spaces fill what is left. */
function fill(start: string, part: string, end = '', most = size): Buffer {
  const room = size - Buffer.byteLength(start + end)
  const count = Math.min(most, Math.floor(room / Buffer.byteLength(part)))
  return Buffer.from(start + part.repeat(count) + end + ' '.repeat(room - count * Buffer.byteLength(part)))
}

/** Of parts with up to three values a body may have so many. */
const mostParts = Math.floor((maximumValues - 3) / 3)

const items = (part: string) => fill('{"id":1.0,"x":[0', `,${part}`, ']}', mostParts)
const text = (part: string) => fill('{"id":1.0,"x":"', part, '"}')
const members = (part: string) => fill('{"id":1.0', `,${part}`, '}', mostParts)
const nested = (open: string, close: string) =>
  fill('{"id":1.0,"x":[0', `,${open.repeat(990)}1${close.repeat(990)}`, ']}', 2)
const keys = Array.from(
  { length: maximumValues - 2 },
  (_, index) => `"${index.toString(36).padStart(Math.floor(size / maximumValues) - 6, 'k')}":1`
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
  'ids in objects': items('{"id":1.0}'),
  'ids in ids': items('{"id":{"id":1}}'),
  'empty keys': members('"":1'),
  'as many long keys as there may be': Buffer.from(`{"id":1.0,${keys.join()}}`),
  arrays: items('[]'),
  objects: items('{}'),
  numbers: items('1'),
  strings: items('""'),
  literals: items('true'),
  'the other literals': items('false,null'),
  'arrays, 992 deep': nested('[', ']'),
  'objects, 992 deep': nested('{"a":', '}')
}
