/**
 * `npm run bench -- compare REVISION`: what a plant costs in the working tree and in another revision, and in that revision
 * once more, so that the noise of the machine is seen. It only prints its result.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { execute } from '../test/support/execute.ts'
import { query } from '../test/support/postgres/query.ts'
import { readVersion } from './database.ts'
import { type Environment, inEnvironment } from './environment.ts'
import { findGenerator } from './load/http.ts'
import { describeMachine } from './machine.ts'
import { type Figures, median } from './measure.ts'
import { readOptions } from './options.ts'
import { formatNumber, formatTable } from './report.ts'
import { findProgram, type Program, readStart } from './server.ts'
import { measureInTurns, serverContestant, type Taken } from './turns.ts'

const root = join(import.meta.dirname, '..')

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
export async function compare(revision: string | undefined): Promise<void> {
  if (revision === undefined) throw new Error('name a revision, such as HEAD: npm run bench -- compare HEAD')
  const turns = readOptions(
    { starts: 6, seconds: 2, connections: [1, 8, 64, 256] },
    { starts: 1, seconds: 1, connections: [64] }
  )
  const generator = await findGenerator()
  await inEnvironment(async (environment) => {
    const other = await buildRevision(revision, join(environment.directory, 'revision'))
    const own = findProgram('service')
    const theirUrl = await createDatabase(environment, 'theirs', other)
    const ownUrl = await createDatabase(environment, 'own', own)
    const common = { ids: 'int64' } as const
    const contestant = (name: string, program: Program, url: string) =>
      serverContestant(environment, generator, { ...common, name, program, url })
    const [theirs = [], again = [], ours = []] = await measureInTurns(
      [
        contestant(revision, other, theirUrl),
        contestant(`${revision} again`, other, theirUrl),
        contestant('this', own, ownUrl)
      ],
      turns
    )
    const version = await readVersion(environment.postgres.url('postgres'))
    const table = formatTable([
      ['connections', '', revision, 'this', 'ratio', `${revision} to itself`, ''],
      ...turns.connections.flatMap((count, index) => compareAt(index, count, { theirs, again, ours }))
    ])
    const method = [
      `Medians; starts of each: ${turns.starts}; ${turns.seconds} s a load.`,
      'Ratios are those of each round, with the range of their median.',
      `Below ${leastRounds} starts, nothing is called better or worse.`
    ].join(' ')
    process.stdout.write(`\n${describeMachine([version, generator.name])}. ${method}\n\n${table}\n`)
    const errors = [...theirs, ...again, ...ours].flat().reduce((sum, figures) => sum + figures.errors, 0)
    if (errors > 0) throw new Error(`void: ${errors} requests failed or were lost`)
  })
}

/** Builds a revision in a directory, with the packages of its own lock file. */
async function buildRevision(revision: string, directory: string): Promise<Program> {
  process.stdout.write(`building ${revision}\n`)
  await mkdir(directory)
  const archive = `${directory}.tar`
  await execute('git', ['archive', `--output=${archive}`, revision], { cwd: root })
  await execute('tar', ['-xf', archive, '-C', directory])
  await execute('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: directory
  })
  await execute('npm', ['run', 'build'], { cwd: directory })
  return { ...findProgram('service'), name: 'revision', args: readStart(directory), directory }
}

/** Makes a database with a program's own migrations. */
async function createDatabase({ postgres }: Environment, name: string, { directory }: Program) {
  await query(postgres.url('postgres'), `create database ${name}`)
  const env = { DATABASE_URL: postgres.url(name) }
  await execute(process.execPath, ['dist/commands/migrate.js'], { cwd: directory, env })
  return postgres.url(name)
}

interface Sides {
  readonly theirs: Taken
  readonly again: Taken
  readonly ours: Taken
}

/** Returns the lines of one number of connections, which is at an index of the loads. */
function compareAt(index: number, connections: number, { theirs, again, ours }: Sides): string[][] {
  return compared.map(([figure, title, digits, moreIsBetter], line) => {
    const of = (taken: Taken) => taken.map((figures) => figures[index]?.[figure] as number)
    const ratio = compareRounds(of(ours), of(theirs))
    const noise = compareRounds(of(again), of(theirs))
    const cells = [theirs, ours].map((taken) => formatNumber(median(of(taken)), digits))
    return [
      line === 0 ? String(connections) : '',
      title,
      ...cells,
      formatRatio(ratio),
      formatRatio(noise),
      judge(ratio, noise, moreIsBetter)
    ]
  })
}

/** With fewer rounds, two ranges of one program are apart by chance too often: one cell in 20 at three rounds. */
const leastRounds = 6

/** The median of the rounds' ratios, and the range that holds it. */
export interface Ratio {
  readonly rounds: number
  readonly median: number
  readonly least: number
  readonly most: number
}

/**
 * Returns the ratio of one side to another, round by round: so a machine that becomes slower does not count. The range
 * holds the median with a probability of 95 % or, below six rounds, is that of all (Conover, Practical Nonparametric
 * Statistics, "confidence interval for a quantile").
 */
export function compareRounds(one: number[], other: number[]): Ratio {
  const ratios = one.map((value, index) => value / (other[index] as number)).toSorted((a, b) => a - b)
  const { length } = ratios
  const rank = Math.max(0, Math.floor(length / 2 - 0.98 * Math.sqrt(length)) - 1)
  return {
    rounds: length,
    median: median(ratios),
    least: ratios[rank] ?? Number.NaN,
    most: ratios[length - 1 - rank] ?? Number.NaN
  }
}

/** Says that a side is better or worse where its range and that of the noise do not meet, if there are rounds enough. */
export function judge({ rounds, least, most }: Ratio, noise: Ratio, moreIsBetter: boolean): string {
  if (rounds < leastRounds) return ''
  if (least > noise.most) return moreIsBetter ? 'better' : 'worse'
  if (most < noise.least) return moreIsBetter ? 'worse' : 'better'
  return ''
}

const formatRatio = ({ median, least, most }: Ratio) =>
  `${formatNumber(median, 3)} (${formatNumber(least, 2)} to ${formatNumber(most, 2)})`
