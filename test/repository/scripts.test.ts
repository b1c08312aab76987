/** No test is forgotten: each file is run by `npm test`, or by a script that `.ci/run` takes. */
import { globSync, readFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(root, path), 'utf8')

t.test('each test file is run by a script', async (t) => {
  const { include, exclude }: { include: string[]; exclude: string[] } = parse(text('.taprc'))
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(text('package.json'))
  const ci = text('.ci/run') + text('.ci/steps.bash')
  const ofScripts = Object.entries(scripts)
    .filter(([name]) => ci.includes(`run_script ${name.replace('test:', '')}`))
    .flatMap(([, command]) => command.match(/test\/\S+\.test\.ts/g) ?? [])
  const isAnyOf = (globs: string[], file: string) => globs.some((glob) => matchesGlob(file, glob))
  const files = globSync('test/**/*.test.ts', { cwd: root, exclude: ['**/node_modules'] })
  t.ok(files.length > 80)
  const runs = (file: string) =>
    (isAnyOf(include, file) && !isAnyOf(exclude, file)) || isAnyOf(ofScripts, file)
  const idle = files.filter((file) => !runs(file))
  t.strictSame(idle, [])
})
