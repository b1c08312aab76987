/** The recipes of CONTRIBUTING.md, which are patches in docs/recipes: applied to a copy of the repository, as a contributor would. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { execute } from './execute.ts'
import { root } from './process.ts'
import type { Teardown } from './teardown.ts'

const recipes = 'docs/recipes'
/** What is in the folder of the repository, and not of it. */
const others = ['.git', '.tap', '.data', '.env', 'dist', 'coverage', 'node_modules']

/** The names of all recipes, such as `field`. */
export const recipeNames = readdirSync(join(root, recipes)).map((file) => basename(file, '.patch'))

/** Copies the repository to a folder below it, where the copy finds node_modules. It is removed at teardown. */
function copyRepository(t: Teardown, name: string): string {
  const parent = join(root, '.tap')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, `${name}-`))
  t.teardown(() => rmSync(folder, { recursive: true }))
  // What .ci/weekly leaves in a folder of test/weekly is no more of the repository.
  const filter = (path: string) => !['node_modules', 'generated'].includes(basename(path))
  for (const entry of readdirSync(root).filter((entry) => !others.includes(entry)))
    cpSync(join(root, entry), join(folder, entry), { recursive: true, filter })
  return folder
}

/** Runs `git apply` with a recipe in a copy. */
const apply = (folder: string, name: string, ...flags: string[]) =>
  execute('git', ['apply', ...flags, join(recipes, `${name}.patch`)], {
    cwd: folder,
    // Git would take the copy for a folder of the repository, whose paths are others.
    env: { GIT_CEILING_DIRECTORIES: join(root, '.tap') }
  })

/**
 * Makes a copy of the repository with a recipe, and one without it: a contributor may have applied the recipe to the repository
 * itself. Returns their folders. Rejects with what to do if the recipe does not fit the code any more.
 */
export async function applyRecipe(t: Teardown, name: string) {
  const [first, second] = [copyRepository(t, name), copyRepository(t, name)]
  const isApplied = await apply(first, name, '--reverse').then(
    () => true,
    () => false
  )
  if (isApplied) return { without: first, applied: second }
  await apply(second, name).catch((cause) => {
    const advice = 'CONTRIBUTING.md says how to write it anew, under "When a recipe does not apply"'
    throw new Error(
      `${recipes}/${name}.patch does not apply to the code as it is now. ${advice}.`,
      { cause }
    )
  })
  return { without: first, applied: second }
}
