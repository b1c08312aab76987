import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { defer } from '../src/deferred.ts'
import { until } from './support/until.ts'

t.test('work is put off, and done once, in its order', async (t) => {
  const done: number[] = []
  const { add } = defer<number>((item) => void done.push(item))
  add(1)
  add(2)
  t.strictSame(done, [], 'not at once')
  await until('both are done', () => done.length === 2)
  add(3)
  await until('what came later is done, too', () => done.length === 3)
  t.strictSame(done, [1, 2, 3])
})

t.test('finish does at once what was put off', async (t) => {
  const done: number[] = []
  const { add, finish } = defer<number>((item) => void done.push(item))
  add(1)
  finish()
  t.strictSame(done, [1])
  finish()
  await sleep(50)
  t.strictSame(done, [1], 'and nothing does it again')
})

t.test('much work does not wait for the time', async (t) => {
  let done = 0
  const { add } = defer(() => done++)
  for (let item = 0; item < 1_000; item++) add(item)
  t.ok(done > 900)
})
