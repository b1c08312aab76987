/** Promise 23: the recipes of CONTRIBUTING.md apply to this code, and what they make passes its checks and tests. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { execute } from './support/execute.ts'
import { compileCache, root } from './support/process.ts'
import { applyRecipe, recipeNames } from './support/recipe.ts'

/** The tests that prove a recipe, besides those that every change of the interface has to pass. */
const own: Record<string, string[]> = {
  field: [],
  'get-plant': ['reads', 'promises/reads']
}
const usual = ['imports', 'docs', 'promises/contract']

/** A file that is not run by tap's own command would end after half a minute. */
const env = { TAP_TIMEOUT: '600', NODE_COMPILE_CACHE: compileCache }
const bin = join(root, 'node_modules/.bin')

t.jobs = 2

for (const name of recipeNames)
  t.test(
    `docs/recipes/${name}.patch applies, passes the checks, and does what it says`,
    async (t) => {
      const { applied: cwd } = await applyRecipe(t, name)
      // Tap would load itself into each process of Node, where tsc does not start with it.
      const run = (...command: string[]) =>
        t.resolves(
          execute('env', ['-u', 'NODE_OPTIONS', ...command], { cwd, env }),
          command.slice(1).join(' ')
        )
      await run(join(bin, 'tsc'), '-p', '.')
      await run(join(bin, 'biome'), 'ci', '--error-on-warnings', '--vcs-enabled=false', '.')
      for (const file of [...(own[name] ?? []), ...usual])
        await run(process.execPath, '--import=./test/support/untracked.ts', `test/${file}.test.ts`)
    }
  )

t.test('CONTRIBUTING.md has each recipe, and each has tests', async (t) => {
  const page = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
  for (const name of recipeNames) t.ok(page.includes(`docs/recipes/${name}.patch`), name)
  t.strictSame(Object.keys(own).sort(), recipeNames.sort())
})
