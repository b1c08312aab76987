/** `npm run bench -- overload`: the service offered twice what its database can take, as a client sees it. */
import { parseMetrics } from '../harness/service/metrics-page.ts'
import { countPlants, readVersion } from './database.ts'
import { type Environment, inEnvironment } from './environment.ts'
import { type Latency, loadOpenLoop } from './load/open-loop.ts'
import { describeMachine } from './machine.ts'
import { readOptions } from './options.ts'
import { formatNumber, publish } from './report.ts'
import { findProgram } from './server.ts'
import { calibrate, slowDown } from './slow-database.ts'
import { cpuUs } from './usage.ts'

const { isQuick, rates, seconds, warmUp, deadline } = readOptions(
  { rates: [2_500, 5_000], seconds: 30, warmUp: 10, deadline: 2_000 },
  { rates: [2_500], seconds: 5, warmUp: 5, deadline: 2_000 }
)
const factor = 2
/** How far the table's rate and the offered rate may be off before the run is invalid. */
const tolerance = 0.03
/** If the generator was busy for more than this share of the time, it may have been the bottleneck. */
const busyGenerator = 0.8

/** Loads the service on a table that takes so many plants a second. Throws where the machine is too busy for that. */
async function overload(environment: Environment, rate: number) {
  const url = await environment.createDatabase(`plants_${rate}`)
  await slowDown(url, rate)
  const before = await calibrate(url, 3)
  const stored = await countPlants(url)
  const server = await environment.startServer(
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
  // If the generator was not busy, the service was the bottleneck.
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

function describeRun({ rate, ...run }: Overload): string {
  const number = (figure: number) => formatNumber(figure, 0)
  const times = ({ p50Ms, p99Ms }: Latency) => `p50 ${number(p50Ms)} ms, p99 ${number(p99Ms)} ms`
  return [
    `- ${number(rate)} of ${number(factor * rate)}/s: ${number(run.offeredPerSecond)} sent,`,
    `${number(run.createdPerSecond)} created (${times(run.createdLatency)}),`,
    `${number(run.refusedPerSecond)} refused (${times(run.refusedLatency)})`
  ].join(' ')
}

await inEnvironment(async (environment) => {
  const runs: Overload[] = []
  for (const rate of rates) runs.push(await overload(environment, rate))
  const machine = describeMachine([await readVersion(environment.postgres.url('postgres'))])
  await publish('overload', {
    text: [
      `\`WRITE_DEADLINE_MS\` ${deadline}, ${seconds} s after ${warmUp} s of warm-up:`,
      ...runs.map(describeRun)
    ].join('\n'),
    data: { machine, deadline, seconds, warmUp, runs },
    errors: runs.reduce((sum, { errors, lost }) => sum + errors + lost, 0),
    isQuick
  })
})
