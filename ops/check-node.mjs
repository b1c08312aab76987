/**
 * `node ops/check-node.mjs [tools|built|development]`: what npm scripts and the unit for systemd run first. Ends with one line and
 * status 78 where Node is older than package.json requires, or something is not installed or built yet. Plain JavaScript of
 * Node 16: an older Node could not read the rest.
 */
import { existsSync, readFileSync } from 'node:fs'

const { engines } = JSON.parse(readFileSync('package.json', 'utf8'))
const [needed] = /\d+/.exec(engines.node)
const reinstall = 'run npm ci --ignore-scripts=false'

const fault = findFault(process.argv[2])
if (fault !== undefined) {
  console.error(`plant-store: ${fault}`)
  process.exitCode = 78 // EX_CONFIG: the unit does not restart
}

function findFault(purpose) {
  const { versions, execPath } = process
  if (Number(versions.node.split('.')[0]) < Number(needed))
    return `Node.js ${needed} or later is needed, ${execPath} is ${versions.node}: install it, or ${reinstall}, which brings it as a package`
  if (!existsSync('node_modules')) return `packages are missing: ${reinstall}`
  if (purpose === 'tools' && !existsSync('node_modules/.bin/tsc'))
    return 'the packages of development are missing: run npm ci --include=dev'
  // The script of a package makes this file.
  if (purpose === 'development' && !existsSync('node_modules/.bin/node'))
    return `packages have been installed without their scripts, or in part: ${reinstall}`
  if (purpose === 'built' && !existsSync('dist/server.js'))
    return 'dist/ is missing: run npm run build'
  return undefined
}
