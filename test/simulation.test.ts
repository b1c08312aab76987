/** The model of group commit, where arithmetic knows the answer. */
import t from 'tap'
import { compare, judge, quartiles } from '../bench/simulation/comparison.ts'
import { createCores } from '../bench/simulation/cores.ts'
import { commitOf } from '../bench/simulation/database.ts'
import { createEventLoop } from '../bench/simulation/event-loop.ts'
import { createEvents } from '../bench/simulation/events.ts'
import { createForecast, mergeCosts, mergePredictions } from '../bench/simulation/forecast.ts'
import { type Parameters, simulate } from '../bench/simulation/model.ts'
import { measureParts } from '../bench/simulation/parts.ts'
import { draw } from '../bench/simulation/plot.ts'

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
  parts: { read: 0.5, answer: 0.3, finish: 0.2 },
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

t.test('a thread keeps its core until it is done, or for a slice; urgent work goes first', async (t) => {
  const events = createEvents(() => 0)
  const createThread = createCores(events, 2)
  const ends: Record<string, number> = {}
  const end = (name: string) => () => {
    ends[name] = Math.round(events.now() * 1e6) / 1e6
  }
  const [a, b, c] = [createThread(), createThread(), createThread()]
  a.run(1, end('a'))
  b.run(4, end('b'))
  c.run(1, () => c.run(1, end('urgent'), true))
  c.run(2, end('usual'))
  await events.runTo(10)
  // The third waits for the first.
  t.strictSame(ends, { a: 1, urgent: 3, b: 4, usual: 5 })
  a.run(2, end('a'))
  b.run(2, end('b'))
  c.run(2, end('c'))
  await events.runTo(20)
  // After 1.4 ms the third has a core, and one of the others waits for the rest of the other's 2 ms.
  t.strictSame(ends, { a: 12, b: 12.6, c: 13.4, urgent: 3, usual: 5 })
})

t.test('a thread that has done what it was given goes behind those that wait', async (t) => {
  const events = createEvents(() => 0)
  const createThread = createCores(events, 1)
  const seen: string[] = []
  const note = (text: string) => () => void seen.push(`${text} ${events.now().toFixed(1)}`)
  const [a, b] = [createThread(), createThread()]
  a.run(0.1, () => {
    note('a')()
    a.run(0.1, note('a again'))
  })
  b.run(1, note('b'))
  await events.runTo(10)
  t.strictSame(seen, ['a 0.1', 'b 1.1', 'a again 1.2'])
})

t.test('a turn takes what has come by its start, and does all of one event before the next', async (t) => {
  const events = createEvents(() => 0)
  const loop = createEventLoop(createCores(events, 1)())
  const seen: string[] = []
  const note = (text: string) => () => void seen.push(`${text} ${events.now()}`)
  loop.read(1, () => {
    note('first')()
    loop.soon(note('end of the first turn'))
    loop.run(1, note('more of the first'))
  })
  for (const name of ['second', 'third']) {
    loop.read(1, () => {
      note(name)()
      loop.soon(note(`end of the turn of the ${name}`))
      loop.run(1, note(`more of the ${name}`))
    })
  }
  await events.runTo(10)
  loop.read(1, note('after a rest'))
  await events.runTo(20)
  t.strictSame(seen, [
    'first 1',
    'more of the first 2',
    'end of the first turn 2',
    'second 3',
    'more of the second 4',
    'third 5',
    'more of the third 6',
    'end of the turn of the second 6',
    'end of the turn of the third 6',
    'after a rest 11'
  ])
})

t.test('a loop that has something to do gives up its core once a turn', async (t) => {
  const events = createEvents(() => 0)
  const createThread = createCores(events, 1)
  const loop = createEventLoop(createThread())
  const other = createThread()
  const seen: string[] = []
  const note = (text: string) => () => void seen.push(`${text} ${events.now()}`)
  loop.read(1, note('first'))
  loop.read(1, note('second'))
  const work = () => other.run(1, work)
  work()
  await events.runTo(10)
  // What comes during a turn is read in the next, behind the other thread's piece.
  t.strictSame(seen, ['first 1', 'second 3'])
})

t.test('one connection waits for each part in turn', async (t) => {
  const slow = { ...parameters, generatorMs: 0.5, requestMs: 1 }
  // 0.5 + 0.5 + 0.3, and a commit of one row: 1.01; what is left of a request is done meanwhile. The time of a request
  // ends when its answer is read, with half of the generator's 0.5 left.
  const { plantsPerSecond, p50Ms, rowsPerBatch } = await simulate(slow, { connections: 1, seconds: 5 })
  t.ok(near(plantsPerSecond, 1000 / 2.31), `${plantsPerSecond}`)
  t.ok(near(p50Ms, 2.06), `${p50Ms}`)
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

t.test('waits for a standby do not wait for each other', async (t) => {
  const free = [{ rows: 1, serverMs: 0, databaseMs: 0, waitsMs: [0] }]
  const lanes = { ...parameters, commits: free, limits: { ...limits, lanes: 4, batchRows: 1 } }
  const { plantsPerSecond, p50Ms } = await simulate(lanes, { connections: 4, seconds: 5, standbyMs: 2 })
  t.ok(near(plantsPerSecond, 2000), `${plantsPerSecond}`)
  t.ok(near(p50Ms, 2), `${p50Ms}`)
})

t.test('replicas apart share nothing but the database', async (t) => {
  const busy = {
    ...parameters,
    commits: [{ rows: 1, serverMs: 0, databaseMs: 0.4, waitsMs: [0] }],
    requestMs: 1,
    limits: { ...limits, lanes: 2, batchRows: 1 }
  }
  const rate = async (replicas: number, databaseCores: number) => {
    const apart = { replicas, databaseCores }
    return (await simulate(busy, { connections: 8, seconds: 3, apart })).plantsPerSecond
  }
  // A replica's own thread takes 1 ms a plant, a core of the database 0.4 ms.
  for (const [replicas, cores, expected] of [
    [1, 1, 1000],
    [2, 1, 2000],
    [5, 1, 2500],
    [5, 2, 5000]
  ] as const) {
    const plants = await rate(replicas, cores)
    t.ok(near(plants, expected), `${replicas} replicas, ${cores} cores: ${plants}`)
  }
})

t.test('the forecast interpolates what requests cost', async (t) => {
  const free = [{ rows: 1, serverMs: 0, databaseMs: 0, waitsMs: [0] }]
  const costs = [
    { connections: 16, requestMs: 0.2, generatorMs: 0.02 },
    { connections: 256, requestMs: 0.1, generatorMs: 0.01 }
  ]
  const known = { cores: 4, parts: parameters.parts, limits }
  const forecast = createForecast(known, costs, free)
  // Halfway between the logarithms; the service's thread is what bounds the rate.
  for (const [connections, requestMs] of [
    [4, 0.2],
    [64, 0.15],
    [1024, 0.1]
  ] as const) {
    const { plantsPerSecond } = await forecast({ connections, seconds: 2 })
    t.ok(near(plantsPerSecond, 1000 / requestMs), `${connections}: ${plantsPerSecond}`)
  }
  const again = { connections: 4, seconds: 1, seed: 7 }
  t.strictSame(await forecast(again), await forecast(again), 'the same chance each time')
  t.notSame(await forecast(again), await forecast({ ...again, seed: 8 }))
  t.throws(() => createForecast(known, [], free)(again), { message: 'nothing was measured' })
})

t.test('a commit between two sizes has its part of both', async (t) => {
  const [one, nine] = [
    { rows: 1, serverMs: 1, databaseMs: 2, waitsMs: [3] },
    { rows: 9, serverMs: 2, databaseMs: 6, waitsMs: [4] }
  ]
  const three = { rows: 3, serverMs: 1.25, databaseMs: 3 }
  t.strictSame(commitOf([one, nine], 3, 0.24), { ...three, waitsMs: [4] })
  t.strictSame(commitOf([one, nine], 3, 0.26), { ...three, waitsMs: [3] })
  t.strictSame(commitOf([one, nine], 9, 0), nine)
  t.strictSame(commitOf([one, nine], 20, 0), { ...nine, rows: 20 })
})

t.test('medians are taken figure by figure', async (t) => {
  const cost = (value: number) => ({ connections: 8, requestMs: value, generatorMs: 10 - value })
  t.strictSame(mergeCosts([cost(1), cost(2), cost(9)]), cost(2))
  const prediction = (value: number) => ({ plantsPerSecond: value, p50Ms: -value, rowsPerBatch: value ** 2 })
  t.strictSame(mergePredictions([prediction(5), prediction(1), prediction(4)]), prediction(4))
})

t.test('the parts of a request are all there is of it', async (t) => {
  const { read, answer, finish } = await measureParts()
  t.ok(Math.abs(read + answer + finish - 1) < 1e-9)
  for (const part of [read, answer, finish]) t.ok(part > 0.02 && part < 0.9, `${part}`)
})

t.test('figures are compared within each round', async (t) => {
  const round = (measured: number, simulated: number, earlier: number) => ({
    measured: { plantsPerSecond: measured, p50Ms: 2 * measured, rowsPerBatch: 3 * measured },
    simulated: { plantsPerSecond: simulated, p50Ms: simulated, rowsPerBatch: simulated },
    earlierPlantsPerSecond: earlier
  })
  // The medians of the plants are the same.
  const comparison = compare(8, [round(100, 200, 90), round(200, 100, 250), round(50, 75, 50)])
  t.strictSame(comparison, {
    connections: 8,
    measured: { plantsPerSecond: 100, p50Ms: 200, rowsPerBatch: 300 },
    simulated: { plantsPerSecond: 100, p50Ms: 100, rowsPerBatch: 100 },
    offs: {
      plantsPerSecond: [1, -0.5, 0.5],
      p50Ms: [0, -0.75, -0.25],
      earlierPlantsPerSecond: [-0.1, 0.25, 0]
    },
    off: { plantsPerSecond: 0.5, p50Ms: -0.25 }
  })
  const met = { ...comparison, off: { plantsPerSecond: -0.15, p50Ms: 0.1 } }
  t.strictSame(judge([comparison, met]), { met: 2, of: 4, worst: 0.5 })
  t.strictSame(judge([met]), { met: 2, of: 2, worst: 0.15 })
  t.strictSame(quartiles([9, 1, 7, 3, 5]), [3, 7])
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
