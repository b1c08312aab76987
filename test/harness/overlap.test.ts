/** Rounds of overlapping faults on a model of an engine: a strike at what is down does nothing, and all is healed. */
import t from 'tap'
import { createRandom } from '../../harness/random/random.ts'
import { createVirtualClock } from '../../harness/time/virtual-clock.ts'
import { createForm, createKinds } from '../stacks/ha/kinds.ts'
import { createRounds } from '../stacks/overlap.ts'
import { createStack } from '../stacks/stack.ts'
import { createFakeEngine } from './fake-engine.ts'

const minutes = 10
const single = [
  'node1',
  'node2',
  'node3',
  'etcd1',
  'etcd2',
  'etcd3',
  'primary',
  'balancer',
  'proxiedbalancer'
]
const forms = [
  createForm('direct', ['api-1', 'api-2'], ['balancer']),
  createForm('proxied', ['proxied-1', 'proxied-2'], ['primary', 'proxiedbalancer'])
]
const services = [...single.map((service) => `${service}-1`), ...forms.flatMap(({ replicas }) => replicas)]

/** Plays the rounds of a seed on the stack of deploy/ha, and returns what they did. */
async function play(seed: number) {
  const virtual = createVirtualClock()
  const clock = {
    now: virtual.now,
    sleep: (ms: number) => new Promise<void>((resolve) => void virtual.after(ms, resolve))
  }
  const engine = createFakeEngine(services, createRandom(seed), clock)
  const stack = createStack('fake', [], {}, [], engine.run)
  const printed: string[] = []
  const kinds = createKinds(stack, forms)
  const isWhole = async () => {}
  const rounds = createRounds({ stack, seed, minutes, forms, kinds, isWhole }, clock, (line) => {
    printed.push(line)
  })
  const unhealed: unknown[] = []
  const idle: string[] = []
  for (const round of rounds) {
    let isOver = false
    const struck = round.strike().finally(() => {
      isOver = true
    })
    struck.catch(() => {}) // it is awaited below
    while (!isOver) await virtual.moveTo(virtual.nextAt ?? virtual.now())
    await struck
    unhealed.push(...engine.unhealed())
    idle.push(...(round.idle?.() ?? []))
  }
  return { idle, unhealed, printed }
}

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

t.test(
  'fifty seeds: each round ends, everything is healed, and strikes that did nothing are reported',
  async (t) => {
    const reasons = new Map<string, number>()
    for (let seed = 0; seed < 50; seed++) {
      const { idle, unhealed, printed } = await play(seed)
      t.strictSame(unhealed, [], `seed ${seed}`)
      for (const line of idle) {
        t.ok(printed.includes(`nothing is done: ${line}`))
        const reason = line.replace(/^.*: /, '')
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
      }
    }
    t.comment(Object.fromEntries(reasons))
    t.strictSame([...reasons.keys()].sort(), ['it is down', 'it is refused', 'it went down meanwhile'])
  }
)

t.test('what hits the proxy of one form excuses no pause of the other', async (t) => {
  const available = (...hits: string[]) => forms.map(({ isAvailable }) => isAvailable(hits))
  t.strictSame(available('node1', 'etcd1', 'api-1', 'proxied-1'), [true, true])
  t.strictSame(available('primary'), [true, false])
  t.strictSame(available('balancer'), [false, true])
  t.strictSame(available('api-1', 'api-2'), [false, true])
  t.strictSame(available('node1', 'node2'), [false, false])
})
