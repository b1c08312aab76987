/** The model of group commit, where arithmetic knows the answer. */
import t from 'tap'
import { createCores } from '../bench/simulation/cores.ts'
import { createEvents } from '../bench/simulation/events.ts'
import { createForecast } from '../bench/simulation/forecast.ts'
import { type Parameters, simulate } from '../bench/simulation/model.ts'
import { draw } from '../bench/simulation/plot.ts'
import { compare } from '../bench/simulation/tables.ts'

const limits = {
  lanes: 1,
  batchRows: 256,
  batchBytes: 1_048_576,
  queueRows: 16_384,
  queueBytes: 67_108_864,
  deadlineMs: 10_000
}

/** Two sizes of commits, of 1 + rows / 100 ms in all of their parts. */
const commits = [0, 100].map((rows) => ({
  rows,
  serverMs: 0,
  databaseMs: rows / 100,
  waitsMs: [1]
}))

const parameters: Parameters = {
  cores: 4,
  generatorMs: 0,
  requestMs: 0,
  queueMs: 0,
  hopMs: 0,
  commits,
  limits
}

const near = (value: number, expected: number) => Math.abs(value / expected - 1) < 0.01

t.test('events come in order of time, then of their making; a cancelled one does not', async (t) => {
  const events = createEvents(() => 0)
  const seen: string[] = []
  const note = (text: string) => () => void seen.push(`${text} ${events.now()}`)
  const times = [5, 3, 9, 3, 7, 1, 8, 2, 20]
  for (const [index, ms] of times.entries()) events.after(ms, note(String(index)))
  events.after(4, note('cancelled'))()
  await events.runTo(10)
  t.strictSame(seen, ['5 1', '7 2', '1 3', '3 3', '0 5', '4 7', '6 8', '2 9'])
  t.equal(events.now(), 10)
})

t.test('threads share the cores evenly; urgent work goes first', async (t) => {
  const events = createEvents(() => 0)
  const createThread = createCores(events, 2)
  const ends: Record<string, number> = {}
  const end = (name: string) => () => {
    ends[name] = Math.round(events.now() * 1e6) / 1e6
  }
  const [a, b, c] = [createThread(), createThread(), createThread()]
  a.run(2, end('a1'))
  a.run(1, end('a2'))
  b.run(4, end('b'))
  c.run(4, () => c.run(1, end('urgent'), true))
  c.run(2, end('usual'))
  await events.runTo(100)
  // Three threads on two cores: a's 3 ms take 4.5; then b and c have a core each.
  t.strictSame(ends, { a1: 3, a2: 4.5, b: 5.5, urgent: 6.5, usual: 8.5 })
})

t.test('one connection waits for each part in turn', async (t) => {
  const slow = { ...parameters, generatorMs: 0.5, requestMs: 1, queueMs: 0.25, hopMs: 0.125 }
  // 0.5 + 1 + 0.25 + 2 × 0.125, and a commit of one row: 1.01.
  const { plantsPerSecond, p50Ms, rowsPerBatch } = await simulate(slow, { connections: 1, seconds: 5 })
  t.ok(near(plantsPerSecond, 1000 / 3.01), `${plantsPerSecond}`)
  t.ok(near(p50Ms, 2.51), `${p50Ms}`)
  t.ok(near(rowsPerBatch, 1))
})

t.test('requests that cost nothing wait for one commit at the most, in one batch', async (t) => {
  const { plantsPerSecond, rowsPerBatch } = await simulate(parameters, { connections: 101, seconds: 5 })
  // The first of each turn finds the lane free and goes alone, the other hundred follow.
  t.ok(near(rowsPerBatch, 101 / 2), `${rowsPerBatch}`)
  t.ok(near(plantsPerSecond, (101 * 1000) / (1.01 + 2)), `${plantsPerSecond}`)
})

t.test('a batch has its limit', async (t) => {
  const small = { ...parameters, limits: { ...limits, batchRows: 10 } }
  const { plantsPerSecond } = await simulate(small, { connections: 500, seconds: 5 })
  t.ok(near(plantsPerSecond, (10 * 1000) / 1.1), `${plantsPerSecond}`)
})

t.test('lanes that commit at once share a flush', async (t) => {
  const free = [1, 2].map((rows) => ({ rows, serverMs: 0, databaseMs: 0, waitsMs: [1] }))
  const lanes = { ...parameters, commits: free, limits: { ...limits, lanes: 4, batchRows: 1 } }
  const { plantsPerSecond } = await simulate(lanes, { connections: 5, seconds: 5 })
  // One is flushed alone, those that come meanwhile together.
  t.ok(near(plantsPerSecond, 2000), `${plantsPerSecond}`)
})

t.test('a server that waits for nothing is limited by its own thread', async (t) => {
  const free = [{ rows: 1, serverMs: 0, databaseMs: 0, waitsMs: [0] }]
  const busy = { ...parameters, commits: free, generatorMs: 0.01, requestMs: 0.05 }
  const { plantsPerSecond } = await simulate(busy, { connections: 64, seconds: 2 })
  t.ok(near(plantsPerSecond, 20_000), `${plantsPerSecond}`)
})

t.test('the forecast interpolates what requests cost, and lengthens commits', async (t) => {
  const costs = [
    { connections: 1, heldMs: 0, requestMs: 1, generatorMs: 0.5, plantsPerSecond: 500 },
    { connections: 16, heldMs: 0, requestMs: 0.2, generatorMs: 0.1, plantsPerSecond: 5000 }
  ]
  const { cores, queueMs } = parameters
  const forecast = await createForecast({ cores, queueMs, commits, limits }, costs)
  // Of the 2 ms a request alone takes, 0.25 are on each way.
  const alone = await forecast(1, 5)
  t.ok(near(alone.p50Ms, 1 + 0.5 + 1.01), `${alone.p50Ms}`)
  const longer = await forecast(1, 5, 3)
  t.ok(near(longer.p50Ms, alone.p50Ms + 3), `${longer.p50Ms}`)
  t.strictSame(await forecast(4, 1), await forecast(4, 1), 'the same chance each time')
})

t.test('a machine that others use is slower in the forecast by as much as without storage', async (t) => {
  const free = [{ rows: 1, serverMs: 0, databaseMs: 0, waitsMs: [1] }]
  const known = { cores: 4, queueMs: 0, commits: free, limits }
  const costs = [
    { connections: 1, heldMs: 0, requestMs: 0.1, generatorMs: 0.01, plantsPerSecond: 5000 },
    { connections: 64, heldMs: 1, requestMs: 0.1, generatorMs: 0.01, plantsPerSecond: 4000 }
  ]
  const forecast = await createForecast(known, costs)
  const { plantsPerSecond } = await forecast(64, 2)
  t.ok(near(plantsPerSecond, 4000), `${plantsPerSecond}`)
})

t.test('figures are compared within each round', async (t) => {
  const round = (measured: number, simulated: number) => ({
    measured: { plantsPerSecond: measured, p50Ms: 2 * measured },
    simulated: { plantsPerSecond: simulated, p50Ms: simulated, rowsPerBatch: simulated }
  })
  // The medians of the plants are the same.
  t.strictSame(compare(8, [round(100, 200), round(200, 100), round(50, 75)]), {
    connections: 8,
    measured: { plantsPerSecond: 100, p50Ms: 200 },
    simulated: { plantsPerSecond: 100, p50Ms: 100, rowsPerBatch: 100 },
    off: { plantsPerSecond: 0.5, p50Ms: -0.25 }
  })
})

t.test('the plot is a drawing of every point', async (t) => {
  const points = [
    { connections: 1, value: 100 },
    { connections: 64, value: 20_000 }
  ]
  const svg = draw([{ title: 'plants/s', measured: points, simulated: points }])
  t.match(svg, /^<svg [^>]*viewBox="0 0 340 264"/)
  t.equal(svg.match(/<circle class="point" r="4" cx="\d/g)?.length, 3)
  t.notMatch(svg, /NaN|undefined/)
  t.match(svg, '>20,000</text>')
})
