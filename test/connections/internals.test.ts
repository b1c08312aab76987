/** What the start tries of Node and of the kernel, and what it says where one of them is another. */
import { createServer } from 'node:http'
import t from 'tap'
import type { Connection } from '../../src/connections/connection.ts'
import { checkInternals } from '../../src/connections/internals.ts'
import { askKernel, checkKernel, findGreedy, mayExceedBound } from '../../src/connections/send-queues.ts'

t.test('this Node is known', () => checkInternals())

t.test('a Node that does not let clients half-close is refused by its version', async (t) => {
  const server = createServer()
  Object.defineProperty(server, 'httpAllowHalfOpen', { set() {}, get: () => false })
  await t.rejects(checkInternals(server), {
    message: /^Node v[\d.]+ is not supported by this release: .*half-closes/
  })
})

t.test('a machine without the port for it is not a fault of Node', async (t) => {
  const server = createServer()
  server.listen = () => {
    throw Object.assign(new Error('no address'), { code: 'EADDRNOTAVAIL' })
  }
  await t.rejects(checkInternals(server), { message: 'no address' })
})

const nowhere = ['/nowhere/tcp']
const unreadable = [import.meta.dirname]

t.test('a kernel that cannot be asked what it holds is warned of', async (t) => {
  for (const tables of [nowhere, unreadable]) {
    const warnings: string[] = []
    await checkKernel((message) => warnings.push(message), tables)
    t.equal(warnings.length, 1)
  }
})

t.test('without its table all that was accepted is taken; where it cannot be read, nothing', async (t) => {
  const learned: number[] = []
  const socket = { destroyed: false, _handle: { bytesWritten: 30_000, writeQueueSize: 10_000, fd: 999_999 } }
  const progress = { hasUnread: true, recordTaken: (bytes: number) => learned.push(bytes) }
  const connection = { socket, progress }
  const lost = { socket: { ...socket, destroyed: true }, progress }
  const connections = [connection, lost] as unknown as Connection[]
  const ask = async (tables?: string[]) => [...(await askKernel(connections, tables)).values()]
  t.strictSame(await ask(unreadable), [])
  t.strictSame(learned, [])
  t.strictSame(await ask(nowhere), [0])
  t.strictSame(await ask(), [0])
  t.strictSame(learned, [20_000, 20_000])
})

t.test('of strangers beyond the bound, those that hold most are cut off, and nobody trusted', async (t) => {
  const make = (isTrusted: boolean, destroyed = false) => ({ isTrusted, socket: { destroyed } }) as Connection
  const [trusted, gone, most, some, little] = [
    make(true),
    make(false, true),
    make(false),
    make(false),
    make(false)
  ]
  const million = 1_000_000
  const held = new Map([
    [trusted, 90 * million],
    [gone, 90 * million],
    [little, 10 * million],
    [most, 50 * million],
    [some, 30 * million]
  ])
  t.strictSame(findGreedy(held), [most])
  held.delete(most)
  t.strictSame(findGreedy(held), [])
  held.set(trusted, 270 * million)
  t.strictSame(findGreedy(held), [trusted], 'trusted connections have a bound of their own')
})

t.test('the kernel is asked when strangers, or all others, may have left more than is allowed', async (t) => {
  const make = (isTrusted: boolean, unreadBytes: number, hasUnread = true) =>
    ({ isTrusted, progress: { hasUnread, unreadBytes } }) as Connection
  const million = 1_000_000
  t.notOk(mayExceedBound([]))
  t.notOk(mayExceedBound([make(false, 60 * million), make(true, 250 * million)]))
  t.notOk(mayExceedBound([make(false, 60 * million), make(false, 10 * million, false)]))
  t.ok(mayExceedBound([make(false, 60 * million), make(false, 10 * million)]))
  t.ok(mayExceedBound([make(true, 200 * million), make(true, 70 * million)]))
})
