/** The reader of a body by itself: a fake request whose events come in an exact order. */
import { EventEmitter } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createBodyReader } from '../../src/body/body.ts'
import { Failure } from '../../src/failures/failure.ts'
import { NewPlant } from '../../src/plants/schema.ts'
import { Shares } from '../../src/shared/shares.ts'

const length = 100_000

t.test('a body whose client leaves before its end fails once, and holds nothing', async (t) => {
  const bodies = new Shares(1_000_000)
  const parse = createBodyReader(NewPlant, bodies, length)
  const raw = Object.assign(new EventEmitter(), { headers: { 'content-length': `${length}` } })
  const ends: unknown[][] = []
  parse({ raw, caller: 'tester' } as unknown as Parameters<typeof parse>[0], (...end) => ends.push(end))
  raw.emit('data', Buffer.from('{'))
  t.equal(bodies.held, length)
  raw.emit('close')
  raw.emit('close')
  t.match(ends, [[{ name: 'MalformedRequest' }]])
  t.equal(ends.length, 1)
  t.equal(bodies.held, 0)
})

t.test('a large body whose client leaves before its turn ends once, with the failure', async (t) => {
  const bodies = new Shares(1_000_000)
  const parse = createBodyReader(NewPlant, bodies, length)
  const raw = Object.assign(new EventEmitter(), { headers: { 'content-length': `${length}` } })
  const ends: unknown[][] = []
  let onBroken: ((failure: Failure) => void) | undefined
  const connection = {
    expectBody: (_: unknown, callback: typeof onBroken) => (onBroken = callback),
    forgetBody: () => (onBroken = undefined)
  }
  const request = { raw, caller: 'tester', connection } as unknown as Parameters<typeof parse>[0]
  parse(request, (...end) => ends.push(end))
  raw.emit('data', Buffer.from('{}'))
  raw.emit('data', Buffer.alloc(length - 2, ' '))
  raw.emit('end')
  t.strictSame([ends, bodies.held], [[], length], 'it waits for its turn')
  const failure = new Failure('MalformedRequest')
  onBroken?.(failure)
  await nextTurn()
  await nextTurn()
  t.strictSame([ends, bodies.held, onBroken], [[[failure]], 0, undefined])
})
