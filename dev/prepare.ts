/** `npm run prepare`, which npm runs after each installation: it builds tap with the plugins that .taprc names. */
import { execFileSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

// An image is built without the tests.
const tap = join(root, 'node_modules/.bin/tap')
if (existsSync(tap) && existsSync(join(root, '.taprc')))
  try {
    execFileSync(tap, ['build'], { cwd: root, stdio: 'pipe' })
  } catch {
    console.error(
      'plant-store: packages have been installed in part: run npm ci --include=dev --include=optional'
    )
    process.exit(78)
  }

// Saves 190 MB: the package `node` needs only its bin/, which has a hard link to the file that runs. npm itself removes
// the rest as soon as it installs something else.
rmSync(join(root, 'node_modules/node/node_modules'), { recursive: true, force: true })
