/** `npm run bench -- overload`: the service offered twice what its database can take, as a client sees it. */
import { parseMetrics } from '../dev/metrics-page.ts'
import { countPlants, readVersion } from './database.ts'
import { inLab, type Lab } from './lab.ts'
import { type Latency, loadOpenLoop } from './load/open-loop.ts'
import { describeMachine } from './machine.ts'
import { readOptions } from './options.ts'
import { formatNumber, formatTable, publish } from './report.ts'
import { findProgram } from './server.ts'
import { calibrate, slowDown } from './slow-database.ts'
import { cpuUs } from './usage.ts'

const { isQuick, rates, seconds, warmUp, deadline } = readOptions(
  { rates: [2_500, 5_000], seconds: 30, warmUp: 10, deadline: 2_000 },
  { rates: [2_500], seconds: 5, warmUp: 5, deadline: 2_000 }
)
const factor = 2
/** How far the table's rate, and what is offered, may be off before the run says nothing. */
const tolerance = 0.03
/** Beyond this part of the time the generator may be what was too slow. */
const busyGenerator = 0.8

/** Loads the service on a table that takes so many plants a second. Throws where the machine is too busy for that. */
async function overload(lab: Lab, rate: number) {
  const url = await lab.createDatabase(`plants_${rate}`)
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
  const lag = parseMetrics(await server.readMetrics()).value('nodejs_eventloop_lag_p99_seconds')
  await server.stop()
  const lost = Math.max(0, stored + result.created - (await countPlants(url)))
  const after = await calibrate(url, 3)

  const checks: [what: string, is: number, should: number][] = [
    ['the table took', before, rate],
    ['the table took afterwards', after, rate]
  ]
  // Where it was not busy itself, it was the service that did not take more.
  if (result.busy >= busyGenerator) {
    checks.push(['the generator sent', result.offeredPerSecond, factor * rate])
  }
  for (const [what, is, should] of checks) {
    if (Math.abs(is / should - 1) > tolerance) {
      throw new Error(`void: ${what} ${Math.round(is)} a second, not ${should}: the machine is too busy`)
    }
  }
  return { rate, before, after, ...result, cpuPercent, lagP99Ms: lag * 1000, lost }
}

type Overload = Awaited<ReturnType<typeof overload>>

function formatRates(run: Overload): string[][] {
  const rates: [what: string, perSecond: number, times: Latency][] = [
    ['sent', run.offeredPerSecond, run.late],
    ['created', run.createdPerSecond, run.createdLatency],
    ['refused with 503 and `Retry-After`', run.refusedPerSecond, run.refusedLatency]
  ]
  return rates.map(([what, perSecond, { p50Ms, p99Ms, maxMs }]) => [
    formatNumber(run.rate, 0),
    what,
    formatNumber(perSecond, 0),
    formatNumber(perSecond / run.rate, 2),
    ...[p50Ms, p99Ms, maxMs].map((ms) => formatNumber(ms, 1))
  ])
}

function describeRun({ rate, before, after, ...run }: Overload): string {
  const number = (figure: number) => formatNumber(figure, 0)
  return [
    `With ${number(rate)}: the table took ${number(before)} plants a second before and ${number(after)} after;`,
    `${number(run.underWay)} requests were under way at the most;`,
    `${number(run.unsent)} that were due found no idle connection until the end, the generator was busy for ${number(run.busy * 100)} % of the time;`,
    `the server used ${number(run.cpuPercent)} % of a core, the p99 of its event loop's lag was ${number(run.lagP99Ms)} ms.`,
    `Other answers, failed connections and lost plants: ${run.errors + run.lost}.`
  ].join(' ')
}

await inLab(async (lab) => {
  const runs: Overload[] = []
  for (const rate of rates) runs.push(await overload(lab, rate))
  const machine = describeMachine([await readVersion(lab.postgres.url('postgres'))])
  const head = ['the table takes', '', 'a second', '÷ the rate', 'p50 ms', 'p99 ms', 'max ms']
  await publish('overload', {
    text: [
      `${machine}. \`WRITE_DEADLINE_MS\` ${deadline}, ${seconds} s after ${warmUp} s of warm-up.`,
      formatTable([head, ...runs.flatMap(formatRates)]),
      ...runs.map(describeRun)
    ].join('\n\n'),
    data: { machine, deadline, seconds, warmUp, runs },
    errors: runs.reduce((sum, { errors, lost }) => sum + errors + lost, 0),
    isQuick
  })
})
