/**
 * `npm run bench -- compare REVISION`: what a plant costs in the working tree and in another revision, and in that revision
 * once more, so that the noise of the machine is seen.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { execute } from '../test/support/execute.ts'
import { inEnvironment } from './environment.ts'
import { findWrk } from './load.ts'
import {
  describeMachine,
  type Figures,
  formatNumber,
  formatTable,
  measureInTurns,
  median,
  serverContestant,
  type Turns
} from './measure.ts'
import { ownProgram, type Program } from './server.ts'

/** The figures that are compared: their digits, and whether more is better. */
const compared: [figure: keyof Figures, title: string, digits: number, moreIsBetter: boolean][] = [
  ['plantsPerSecond', 'plants/s', 0, true],
  ['serverCpuUs', 'CPU µs/plant', 1, false],
  ['databaseCpuUs', 'PostgreSQL µs/plant', 1, false],
  ['p50Ms', 'p50 ms', 2, false],
  ['p99Ms', 'p99 ms', 2, false],
  ['peakMiB', 'peak MiB', 0, false]
]

/** Compares the working tree, which has to be built, with a revision that git knows. */
export async function compare(revision: string | undefined, turns: Turns): Promise<void> {
  if (revision === undefined) throw new Error('name a revision: npm run bench -- compare HEAD')
  const wrk = await findWrk()
  await inEnvironment(async (environment) => {
    const other = await buildRevision(revision, join(environment.directory, 'revision'))
    const own = ownProgram()
    const theirUrl = await environment.createDatabase('theirs', other)
    const ownUrl = await environment.createDatabase('own', own)
    const contestants = [
      serverContestant(environment, revision, other, theirUrl),
      serverContestant(environment, `${revision} again`, other, theirUrl),
      serverContestant(environment, 'this', own, ownUrl)
    ]
    const [theirs = [], again = [], ours = []] = await measureInTurns(contestants, turns)
    const table = formatTable([
      ['connections', '', revision, 'this', 'ratio', `${revision} to itself`, ''],
      ...turns.connections.flatMap((count, index) => compareAt(index, count, { theirs, again, ours }))
    ])
    const method = `Medians of ${turns.starts} starts of each, ${turns.seconds} s a load. Ratios are those of each round, with the range that holds their median with 95 % confidence. Below ${leastRounds} starts, nothing is called better or worse.`
    const machine = await describeMachine(environment, wrk)
    process.stdout.write(`\n${machine}. ${method}\n\n${table}\n`)
    const errors = [...theirs, ...again, ...ours].flat().reduce((sum, figures) => sum + figures.errors, 0)
    if (errors > 0) throw new Error(`void: ${errors} requests failed or were lost`)
  })
}

/** Builds a revision in a directory, with the packages of its own lockfile. */
async function buildRevision(revision: string, directory: string): Promise<Program> {
  process.stdout.write(`building ${revision}\n`)
  await mkdir(directory)
  const archive = `${directory}.tar`
  await execute('git', ['archive', `--output=${archive}`, revision], { cwd: join(import.meta.dirname, '..') })
  await execute('tar', ['-xf', archive, '-C', directory])
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  await execute('npm', ['ci', ...flags], { cwd: directory })
  await execute('npm', ['run', 'build'], { cwd: directory })
  return ownProgram(directory)
}

/** The figures of a side: of each start, at each number of connections. */
type Side = Figures[][]

/** Returns the lines of one number of connections, which is at an index of the loads. */
function compareAt(
  index: number,
  connections: number,
  { theirs, again, ours }: Record<'theirs' | 'again' | 'ours', Side>
): string[][] {
  return compared.map(([figure, title, digits, moreIsBetter], line) => {
    const of = (side: Side) => side.map((figures) => figures[index]?.[figure] as number)
    const ratio = compareRounds(of(ours), of(theirs))
    const noise = compareRounds(of(again), of(theirs))
    return [
      line === 0 ? String(connections) : '',
      title,
      ...[theirs, ours].map((side) => formatNumber(median(of(side)), digits)),
      formatRatio(ratio),
      formatRatio(noise),
      judge(ratio, noise, moreIsBetter)
    ]
  })
}

/** With fewer rounds, two ranges of one program are apart by chance too often: one cell in 20 at three rounds. */
const leastRounds = 6

/** The median of the rounds' ratios, and the range that holds it. */
interface Ratio {
  readonly rounds: number
  readonly median: number
  readonly least: number
  readonly most: number
}

/**
 * Returns the ratio of one side to another, round by round, so that a machine that becomes slower does not count. The range
 * holds the median with a probability of 95 % or, below six rounds, is that of all (Conover, Practical Nonparametric
 * Statistics, "confidence interval for a quantile").
 */
function compareRounds(one: number[], other: number[]): Ratio {
  const ratios = one.map((value, index) => value / (other[index] as number)).toSorted((a, b) => a - b)
  const { length } = ratios
  const rank = Math.max(0, Math.floor(length / 2 - 0.98 * Math.sqrt(length)) - 1)
  const [least = Number.NaN, most = Number.NaN] = [ratios[rank], ratios[length - 1 - rank]]
  return { rounds: length, median: median(ratios), least, most }
}

/** Says that a side is better or worse where its range and that of the noise do not meet, if there are rounds enough. */
function judge({ rounds, least, most }: Ratio, noise: Ratio, moreIsBetter: boolean): string {
  if (rounds < leastRounds) return ''
  if (least > noise.most) return moreIsBetter ? 'better' : 'worse'
  if (most < noise.least) return moreIsBetter ? 'worse' : 'better'
  return ''
}

const formatRatio = ({ median, least, most }: Ratio) =>
  `${formatNumber(median, 3)} (${formatNumber(least, 2)} to ${formatNumber(most, 2)})`
