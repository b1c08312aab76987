/** The check of a server's frames, however its bytes are cut into chunks. */
import t from 'tap'
import { createFrameCheck } from '../src/database/frames.ts'
import { int32, message } from './support/postgres/double.ts'

const good = [
  message('R', 0),
  message('E', 'SFATAL\0Mgone\0\0'),
  message('N', '\0'),
  message('1'),
  message('D', '\0\x01', 2, 'ab'),
  message('E', 'S\0\0'),
  message('Z', 'I')
]
/** What is refused behind a good message. */
const bad: [title: string, bytes: Buffer, says: RegExp][] = [
  ['a length of 0', Buffer.concat([Buffer.from('D'), int32(0)]), /^a message of 0 bytes$/],
  ['a length of 3', Buffer.concat([Buffer.from('Z'), int32(3)]), /^a message of 3 bytes$/],
  [
    'a length of 2^26 + 1',
    Buffer.concat([Buffer.from('D'), int32(2 ** 26 + 1)]),
    /^a message of 67108865 bytes$/
  ],
  [
    'a length of 2^32 - 1',
    Buffer.concat([Buffer.from('R'), int32(2 ** 32 - 1)]),
    /^a message of 4294967295 bytes$/
  ],
  ['an empty error', message('E'), /^an error that is cut off$/],
  ['an error without its last zero', message('E', 'SFATAL\0'), /^an error that is cut off$/],
  ['a notice that ends in a text', message('N', 'S\0\0x'), /^an error that is cut off$/],
  ['an error of one letter', message('E', 'S'), /^an error that is cut off$/]
]

/** Passes bytes on in chunks of this size. */
function check(bytes: Buffer, size: number) {
  const checkFrames = createFrameCheck()
  for (let at = 0; at < bytes.length; at += size) checkFrames(bytes.subarray(at, at + size))
}

const whole = Buffer.concat([...good, ...good])
t.test('whole messages pass', async (t) => {
  for (let size = 1; size <= whole.length; size++)
    t.doesNotThrow(() => check(whole, size), `in chunks of ${size}`)
  t.doesNotThrow(() => check(Buffer.concat([Buffer.from('D'), int32(2 ** 26)]), 5), 'the longest')
})

for (const [title, bytes, says] of bad)
  t.test(`${title} is refused`, async (t) => {
    const all = Buffer.concat([message('R', 0), bytes])
    for (let size = 1; size <= all.length; size++)
      t.throws(() => check(all, size), { message: says })
  })
