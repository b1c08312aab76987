/** What fails is reduced to the part that matters, and what does not fail is not reduced. */
import t from 'tap'
import { shrink } from '../../harness/random/shrink.ts'

const items = Array.from({ length: 30 }, (_, index) => index)

/** Shrinks by this rule, and records what it was asked about. */
async function shrinkBy(rule: (items: readonly number[]) => boolean) {
  const asked: (readonly number[])[] = []
  const smallest = await shrink(items, async (some) => {
    asked.push(some)
    return rule(some)
  })
  return { smallest, asked }
}

t.test('nothing is found if all items together do not fail, and no others are asked about', async (t) => {
  t.strictSame(await shrinkBy(() => false), { smallest: undefined, asked: [items] })
})

t.test('the one item that matters is found in few questions', async (t) => {
  for (const item of items) {
    const { smallest, asked } = await shrinkBy((some) => some.includes(item))
    t.strictSame(smallest, [item])
    t.ok(asked.length <= 12, `${asked.length} questions`)
  }
})

t.test('items that fail only together are found', async (t) => {
  const { smallest } = await shrinkBy((some) => [3, 4, 29].every((item) => some.includes(item)))
  t.strictSame(smallest, [3, 4, 29])
})

t.test('an item that can be left out only after a later one is left out', async (t) => {
  const { smallest } = await shrinkBy((some) => {
    const hasLast = some.includes(29)
    return some.includes(7) && (hasLast ? some.includes(0) : some.length <= 2)
  })
  t.strictSame(smallest, [7])
})

t.test('where anything fails, one item is left', async (t) => {
  const { smallest, asked } = await shrinkBy(() => true)
  t.equal(smallest?.length, 1)
  t.ok(asked.every((some) => some.length > 0))
})
