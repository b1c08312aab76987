/**
 * `npm run mutants`: breaks `src`, and fails if nothing finds a mutant. With `--small N` it draws so many small ones: what
 * neither the tests of its folder find nor those that import its file changes nothing, or lacks a test.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync, rmSync } from 'node:fs'
import { cp, mkdtemp, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { createRandom } from '../../harness/random/random.ts'
import { explore } from '../simulation/explore.ts'
import { breakSource, mutants } from './mutants.ts'
import { findSmall } from './small.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seeds: { type: 'string', default: '500' },
    small: { type: 'string' },
    seed: { type: 'string', default: '1' }
  }
})
const root = join(import.meta.dirname, '../..')
const isAsked = (file: string) => file.includes(values.only)

/** What tests need of the project, besides the sources, the tests and their tools. */
const linked = ['node_modules', 'package.json', 'migrations', 'public', 'docs', 'ops']

/** Calls back with a copy of the project, in which a file of `src` may have another source. */
async function withCopy<Result>(
  use: (project: string) => Promise<Result>,
  file?: string,
  source = ''
): Promise<Result> {
  const copy = await mkdtemp(join(tmpdir(), 'mutant-'))
  const remove = () => rmSync(copy, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    const filter = (path: string) => basename(path) !== 'node_modules'
    for (const name of ['src', 'harness', 'test', 'dev'])
      await cp(join(root, name), join(copy, name), { recursive: true, filter })
    for (const name of linked) await symlink(join(root, name), join(copy, name))
    if (file) await writeFile(join(copy, 'src', file), source)
    return await use(copy)
  } finally {
    process.off('exit', remove)
    remove()
  }
}

// What is done at the exit is done when it is interrupted, too.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/** Returns whether a test passes in a copy of the project; it finds its server in TEST_DATABASE_URL. */
async function passes(test: string, project: string, timeoutMs = 600_000): Promise<boolean> {
  const env = { ...process.env, TAP_TIMEOUT: '600', TAP_BAIL: '1' }
  // In a group of its own, so that it ends with the services that it has started.
  const file = join(project, 'test', `${test}.test.ts`)
  const child = spawn(process.execPath, [file], { env, stdio: 'ignore', detached: true })
  const kill = () => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch {
      // All of them have ended.
    }
  }
  process.once('exit', kill)
  const timer = setTimeout(kill, timeoutMs)
  const [code] = await once(child, 'exit')
  clearTimeout(timer)
  kill()
  process.off('exit', kill)
  return code === 0
}

const sound = new Map<string, boolean>()
/** Returns whether a test passes in a copy that is whole. */
async function isSound(test: string): Promise<boolean> {
  const passed = sound.get(test) ?? (await withCopy((whole) => passes(test, whole)))
  sound.set(test, passed)
  return passed
}

/** Prints what finds each mutant: how many seeds, or the test, which passes without it. */
async function findMutants() {
  for (const mutant of mutants.filter(({ file }) => isAsked(file))) {
    const { name, file, foundBy } = mutant
    const find = async (project: string) => {
      if (typeof foundBy !== 'string') {
        const { seed } = await explore(Number(values.seeds), { src: join(project, 'src'), breaks: foundBy })
        return seed === undefined ? undefined : (seed + 1).toLocaleString('en')
      }
      if (await passes(foundBy, project)) return undefined
      return (await isSound(foundBy)) ? `\`${foundBy}\`` : undefined
    }
    const broken = breakSource(readFileSync(join(root, 'src', file), 'utf8'), mutant)
    const found = await withCopy(find, file, broken)
    console.log(`| ${name} | ${found ?? 'not found'} |`)
    if (found === undefined) process.exitCode = 1
  }
}

/** Tests that take long, or need what is not here. */
const slow = ['container', 'faults', 'memory', 'simulation', '{dev,npm}.test.ts', '**/node_modules']

/** The tests of a file of `src`: the one that has its name, those of its folder, and others that import it. */
function testsOf(file: string): string[] {
  const directory = join(root, 'test')
  const rankOf = (test: string) => {
    if (basename(test, '.test.ts') === basename(file, '.ts')) return 0
    if (dirname(test) === dirname(file)) return 1
    return readFileSync(join(directory, test), 'utf8').includes(`src/${file}'`) ? 2 : 3
  }
  const ranks = globSync('**/*.test.ts', { cwd: directory, exclude: slow }).map(
    (test) => [rankOf(test), test] as const
  )
  const own = ranks.filter(([rank]) => rank < 3).sort(([one], [other]) => one - other)
  return own.map(([, test]) => test.replace('.test.ts', ''))
}

/** Draws small mutants, and prints which of their tests finds each. */
async function drawSmall(count: number) {
  const random = createRandom(Number(values.seed))
  const files = globSync('**/*.ts', { cwd: join(root, 'src') }).filter(isAsked)
  const all = files.sort().flatMap((file) => {
    const source = readFileSync(join(root, 'src', file), 'utf8')
    return findSmall(source).map((change) => ({ file, source, ...change }))
  })
  let found = 0
  for (let drawn = 0; drawn < count; drawn++) {
    const { file, source, start, end, text } = random.pick(all)
    const find = async (project: string) => {
      for (const test of testsOf(file))
        if ((await isSound(test)) && !(await passes(test, project, 120_000))) return test
    }
    const test = await withCopy(find, file, source.slice(0, start) + text + source.slice(end))
    if (test) found++
    const place = `src/${file}:${source.slice(0, start).split('\n').length}`
    const was = source.slice(start, end).replaceAll(/\s+/g, ' ')
    console.log(`${test ?? 'NOT FOUND'}: ${place}: ${was} -> ${text}`)
  }
  console.log(`${found} of ${count} are found`)
}

if (values.small === undefined) await findMutants()
else await drawSmall(Number(values.small))
