/** Schedules of overlapping faults: repeatable, bounded, and honest about when creates need not succeed. */
import t from 'tap'
import { createRandom } from '../../harness/random/random.ts'
import { createForm } from '../stacks/ha/kinds.ts'
import { createRounds } from '../stacks/overlap.ts'
import { describe, drawSchedule, findOutages, hitsOf, type Kind } from '../stacks/schedule.ts'

const kind = (name: string, group: string, longest: number): Kind => ({
  ...{ name, group, longest, targets: ['a', 'b', 'c'] },
  needs: () => [],
  strike: async () => {}
})
const kinds = [
  kind('is killed', 'process', 20),
  kind('is cut off', 'network', 30),
  kind('moves', 'process', 0)
]
const lengthMs = 60_000
const draw = (seed: number) => drawSchedule(createRandom(seed), kinds, lengthMs)

t.test('a seed makes the same schedule every time, and another seed another one', async (t) => {
  t.strictSame(describe(draw(7)), describe(draw(7)))
  t.notSame(describe(draw(7)), describe(draw(8)))
})

t.test('faults overlap, but no two of one group on one target, nor more than three', async (t) => {
  let overlaps = 0
  for (let seed = 0; seed < 500; seed++) {
    const entries = draw(seed)
    t.equal(new Set(entries.map(({ tag }) => tag)).size, entries.length)
    for (const [index, entry] of entries.entries()) {
      const { from, to, target } = entry
      if (from > to || to > lengthMs) t.fail(`${seed}: from ${from} to ${to}`)
      const active = entries.slice(0, index).filter((other) => other.to > from)
      if (active.length > 2) t.fail(`${seed}: more than three at once`)
      if (active.some((other) => other.target === target && other.kind.group === entry.kind.group))
        t.fail(`${seed}: two of one group on ${target}`)
      overlaps += active.length
    }
  }
  t.ok(overlaps > 500)
})

t.test('all that a gentle schedule hits, taken together, leaves enough', async (t) => {
  const isAllowed = (hits: string[]) => new Set(hits).size <= 2
  for (let seed = 0; seed < 100; seed++) {
    const hits = drawSchedule(createRandom(seed), kinds, lengthMs, isAllowed).flatMap(hitsOf)
    t.ok(isAllowed(hits) && hits.length > 2, `${seed}: ${hits}`)
  }
})

t.test('a gentle schedule leaves a part, and its links, alone for 15 s after a fault', async (t) => {
  const nodes = ['node1', 'node2', 'node1-node2']
  const parts = kinds.map((each) => ({ ...each, longest: 10, targets: nodes }))
  let rests = 0
  for (let seed = 0; seed < 100; seed++) {
    const entries = drawSchedule(createRandom(seed), parts, lengthMs, () => true)
    for (const { target, from } of entries)
      for (const other of entries.filter(({ to }) => to <= from)) {
        const isApart = [target, other.target].sort().join() === 'node1,node2'
        if (!isApart) rests++
        if (!isApart && from < other.to + 15_000) t.fail(`${seed}: ${describe(entries)}`)
      }
  }
  t.ok(rests > 100)
})

t.test('an outage lasts while the targets that are hit together make one', async (t) => {
  const hit = (name: string, from: number, to: number) => ({ hits: [name], from, to })
  const outages = (...hits: ReturnType<typeof hit>[]) =>
    findOutages(hits, (active) => new Set(active).size < 2)
  t.strictSame(outages(), [])
  t.strictSame(outages(hit('a', 0, 10), hit('b', 10, 20)), [])
  t.strictSame(outages(hit('a', 0, 10), hit('a', 5, 20)), [])
  t.strictSame(outages(hit('a', 0, 10), hit('b', 5, 20)), [{ from: 5, to: 10 }])
  t.strictSame(outages(hit('a', 0, 10), hit('b', 5, 20), hit('c', 8, 12), hit('b', 30, 40)), [
    { from: 5, to: 12 }
  ])
})

t.test('a strike excuses a pause, and one that is refused does not', async (t) => {
  const isWhole = async () => {}
  const stack = { runs: async () => ['since ever'] }
  const form = createForm('a form', ['api-1'], ['balancer'])
  for (const [strike, count] of [
    [async () => {}, 1],
    [() => Promise.reject(new Error('refused')), 0]
  ] as const) {
    const kind = { ...{ name: 'breaks', targets: ['balancer'], group: 'process', longest: 0 }, strike }
    const kinds = [{ ...kind, needs: () => ['balancer-1'], refusal: /refused/ }]
    const clock = { now: () => 0, sleep: async () => {} }
    const options = {
      ...{ stack, seed: 1, minutes: 4, kinds, isWhole },
      forms: [{ isAvailable: () => true }]
    }
    const rounds = createRounds(options, clock, () => {})
    for (const round of rounds) await round.strike()
    const found = rounds.map((round) => round.outages?.(form).outages.length)
    t.strictSame(found, Array(4).fill(count))
  }
})

t.test('what hits the proxy of one form excuses no pause of the other', async (t) => {
  const forms = [
    createForm('direct', ['api-1', 'api-2'], ['balancer']),
    createForm('proxied', ['proxied-1', 'proxied-2'], ['primary', 'proxiedbalancer'])
  ]
  const available = (...hits: string[]) => forms.map(({ isAvailable }) => isAvailable(hits))
  t.strictSame(available('node1', 'etcd1', 'api-1', 'proxied-1'), [true, true])
  t.strictSame(available('primary'), [true, false])
  t.strictSame(available('balancer'), [false, true])
  t.strictSame(available('api-1', 'api-2'), [false, true])
  t.strictSame(available('node1', 'node2'), [false, false])
})
