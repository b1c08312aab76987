/**
 * `npm run prepare`, which npm runs after each installation: it puts Swagger UI's files next to those of our page, the large
 * ones compressed, and builds tap with the plugins that .taprc names.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const root = join(import.meta.dirname, '..')
const library = join(root, 'node_modules/swagger-ui-dist')
const page = join(root, 'public/docs')

/** What the page loads. */
const loaded = ['swagger-ui.css', 'swagger-ui-bundle.js']
/** The licences that have to go with it. */
const files: Record<string, string> = {
  'swagger-ui-bundle.js.LICENSE.txt': 'swagger-ui-bundle.js.LICENSE.txt',
  LICENSE: 'swagger-ui.LICENSE',
  NOTICE: 'swagger-ui.NOTICE'
}

// A production installation has no development packages, and serves what the build has copied.
if (existsSync(library)) {
  for (const [from, to] of Object.entries(files)) copyFileSync(join(library, from), join(page, to))
  for (const name of loaded)
    writeFileSync(join(page, `${name}.gz`), gzipSync(readFileSync(join(library, name)), { level: 9 }))
}

// An image is built without the tests.
const tap = join(root, 'node_modules/.bin/tap')
if (existsSync(tap) && existsSync(join(root, '.taprc'))) execFileSync(tap, ['build'], { cwd: root })

// Saves 190 MB: the package `node` needs only its bin/, which has a hard link to the file that runs. npm itself removes
// the rest as soon as it installs something else.
rmSync(join(root, 'node_modules/node/node_modules'), { recursive: true, force: true })
