/** `npm run bench:overload`: the service offered twice what its database can take, as a client sees it. */
import { countPlants, readVersion } from './database.ts'
import { inLab } from './lab.ts'
import { type Latency, loadOpenLoop } from './load/open-loop.ts'
import { describeMachine } from './machine.ts'
import { readOptions } from './options.ts'
import { formatNumber, formatTable, publish } from './report.ts'
import { findProgram } from './server.ts'
import { calibrate, slowDown } from './slow-database.ts'
import { cpuUs } from './usage.ts'

const { isQuick, rate, seconds, warmUp, deadline } = readOptions(
  { rate: 5_000, seconds: 30, warmUp: 10, deadline: 2_000 },
  { rate: 5_000, seconds: 5, warmUp: 5, deadline: 2_000 }
)
const factor = 2
/** How far the table's rate, and what is offered, may be off before the run says nothing. */
const tolerance = 0.03

await inLab(async (lab) => {
  const url = await lab.createDatabase('plants')
  await slowDown(url, rate)
  const before = await calibrate(url, 3)
  const stored = await countPlants(url)
  const server = await lab.startServer(
    { ...findProgram('service'), settings: { WRITE_DEADLINE_MS: String(deadline) } },
    url
  )
  const cpuBefore = cpuUs(server.pid)
  const result = await loadOpenLoop(server.url, {
    perSecond: factor * rate,
    warmUpSeconds: warmUp,
    seconds,
    connections: factor * rate * (deadline / 2000),
    patienceSeconds: (2 * deadline) / 1000
  })

  const cpuPercent = (cpuUs(server.pid) - cpuBefore) / (warmUp + seconds) / 1e4
  const [, lag = 'NaN'] = /^nodejs_eventloop_lag_p99_seconds (\S+)$/m.exec(await server.readMetrics()) ?? []
  const lost = Math.max(0, stored + result.created - (await countPlants(url)))
  const after = await calibrate(url, 3)

  for (const [what, is, should] of [
    ['the table took', before, rate],
    ['the table took afterwards', after, rate],
    ['the generator offered', result.offeredPerSecond, factor * rate]
  ] as const) {
    if (Math.abs(is / should - 1) > tolerance) {
      throw new Error(`void: ${what} ${Math.round(is)} a second, not ${should}: the machine is too busy`)
    }
  }

  const machine = describeMachine([await readVersion(lab.postgres.url('postgres'))])
  const rates = [
    ['offered', result.offeredPerSecond, result.late],
    ['created', result.createdPerSecond, result.createdLatency],
    ['refused with 503 and `Retry-After`', result.refusedPerSecond, result.refusedLatency]
  ] as const satisfies [string, number, Latency][]
  const lines = rates.map(([name, perSecond, { p50Ms, p99Ms, maxMs }]) => [
    name,
    formatNumber(perSecond, 0),
    formatNumber(perSecond / rate, 2),
    ...[p50Ms, p99Ms, maxMs].map((ms) => formatNumber(ms, 1))
  ])
  const head = ['', 'a second', '÷ the rate', 'p50 ms', 'p99 ms', 'max ms']
  await publish('overload', {
    text: [
      `${machine}. A table that takes ${formatNumber(rate, 0)} plants a second (measured: ${formatNumber(before, 0)} before, ${formatNumber(after, 0)} after), \`WRITE_DEADLINE_MS\` ${deadline}, ${seconds} s after ${warmUp} s of warm-up.`,
      formatTable([head, ...lines]),
      `The times of what was offered say how late it left. ${formatNumber(result.underWay, 0)} requests were under way at the most; the server used ${formatNumber(cpuPercent, 0)} % of a core, the p99 of its event loop's lag was ${formatNumber(Number(lag) * 1000, 0)} ms. Other answers, failed connections and lost plants: ${result.errors + lost}.`
    ].join('\n\n'),
    data: {
      machine,
      rate,
      before,
      after,
      deadline,
      seconds,
      warmUp,
      ...result,
      cpuPercent,
      lagP99Ms: Number(lag) * 1000,
      lost
    },
    errors: result.errors + lost,
    isQuick
  })
})
