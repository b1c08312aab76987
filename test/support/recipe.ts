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

/**
 * Applies a recipe to a copy of the repository below it, where the copy finds node_modules. Returns its folder, which is removed
 * at teardown. Rejects with what to do if the recipe does not fit the code any more.
 */
export async function applyRecipe(t: Teardown, name: string): Promise<string> {
  const parent = join(root, '.tap')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, `${name}-`))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const filter = (path: string) => basename(path) !== 'node_modules'
  for (const entry of readdirSync(root).filter((entry) => !others.includes(entry)))
    cpSync(join(root, entry), join(folder, entry), { recursive: true, filter })
  const file = join(recipes, `${name}.patch`)
  // Git would take the copy for a folder of the repository, whose paths are others.
  const env = { GIT_CEILING_DIRECTORIES: parent }
  await execute('git', ['apply', file], { cwd: folder, env }).catch((cause) => {
    const advice = 'CONTRIBUTING.md says how to write it anew, under "When a recipe does not apply"'
    throw new Error(`${file} does not apply to the code as it is now. ${advice}.`, { cause })
  })
  return folder
}
