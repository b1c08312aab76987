/** `npm run simulate`: looks for a seed whose simulation breaks a rule, shows one, or measures how soon mutants are found. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { execute } from '../../harness/execute.ts'
import { explore, replay } from './explore.ts'
import { breakSource, type Mutant, mutants } from './mutants.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    mutants: { type: 'boolean', default: false },
    only: { type: 'string', default: '' }
  }
})
const seeds = Number(values.seeds)
const from = Number(values.from)

/** Shows what happens in a seed, or in its smallest schedule that fails. */
async function show(seed: number) {
  const whole = await replay(seed, false)
  const small = whole.violations?.length ? await replay(seed, true) : whole
  // One that never ends has no schedule and no trace.
  const { schedule, trace } = small.trace ? small : whole
  if (trace) console.log([JSON.stringify(schedule, undefined, 1), ...trace].join('\n'))
  for (const violation of whole.violations ?? []) console.log(violation)
  process.exitCode = whole.violations?.length ? 1 : 0
}

/** What tests need of the project, besides the sources, the tests and their tools. */
const linked = ['node_modules', 'package.json', 'migrations', 'public']

/** Calls back with a copy of the project that has the mutant's fault, or none. */
async function withMutant<Result>(
  mutant: Mutant | undefined,
  use: (project: string) => Promise<Result>
): Promise<Result> {
  const root = join(import.meta.dirname, '../..')
  const copy = await mkdtemp(join(tmpdir(), 'mutant-'))
  try {
    const filter = (path: string) => basename(path) !== 'node_modules'
    for (const name of ['src', 'harness', 'test', 'dev'])
      await cp(join(root, name), join(copy, name), { recursive: true, filter })
    for (const name of linked) await symlink(join(root, name), join(copy, name))
    if (mutant) {
      const path = join(copy, 'src', mutant.file)
      await writeFile(path, breakSource(await readFile(path, 'utf8'), mutant))
    }
    return await use(copy)
  } finally {
    await rm(copy, { recursive: true })
  }
}

/** Returns whether a test passes in a copy of the project; it finds its server in TEST_DATABASE_URL. */
const passes = (test: string, project: string) =>
  execute(process.execPath, [join(project, 'test', `${test}.test.ts`)], { env: { TAP_TIMEOUT: '600' } }).then(
    () => true,
    () => false
  )

/** Whether a mutant is one of a file whose path has the text of `--only`. */
const isAsked = ({ file }: Mutant) => file.includes(values.only)

/** Prints what finds each mutant: how many seeds, or the test, which passes without it. */
async function findMutants() {
  for (const mutant of mutants.filter(isAsked)) {
    const { name, foundBy } = mutant
    const found = await withMutant(mutant, async (project) => {
      if (typeof foundBy !== 'string') {
        const { seed } = await explore(seeds, { src: join(project, 'src'), breaks: foundBy })
        return seed === undefined ? undefined : (seed + 1).toLocaleString('en')
      }
      if (await passes(foundBy, project)) return undefined
      return (await withMutant(undefined, (whole) => passes(foundBy, whole))) ? `\`${foundBy}\`` : undefined
    })
    console.log(`| ${name} | ${found ?? 'not found'} |`)
    if (found === undefined) process.exitCode = 1
  }
}

if (values.seed !== undefined) await show(Number(values.seed))
else if (values.mutants) await findMutants()
else {
  const { seed } = await explore(seeds, { from })
  console.log(seed === undefined ? `${seeds} seeds: every rule is kept` : `seed ${seed} fails`)
  if (seed !== undefined) await show(seed)
}
