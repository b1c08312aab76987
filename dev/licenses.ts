/** Lists the packages that ship, by licence, and fails where a licence is not among those that are accepted. */
import { readFileSync } from 'node:fs'

const accepted = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT'
])

const lockfile = new URL('../package-lock.json', import.meta.url)
const { packages } = JSON.parse(readFileSync(lockfile, 'utf8')) as {
  packages: Record<string, { version: string; license?: string; dev?: boolean }>
}
const byLicence = new Map<string, Set<string>>()
for (const [path, { version, license = 'none declared', dev }] of Object.entries(packages)) {
  if (path === '' || dev) continue
  const names = byLicence.get(license) ?? new Set()
  byLicence.set(license, names.add(`${path.split('node_modules/').at(-1)}@${version}`))
}
for (const [licence, names] of [...byLicence].sort()) {
  process.stdout.write(`${licence} (${names.size})\n  ${[...names].sort().join('\n  ')}\n`)
}
const refused = [...byLicence.keys()].filter((licence) => !accepted.has(licence))
if (refused.length > 0) {
  process.stderr.write(`licences: not accepted: ${refused.join(', ')}\n`)
  process.exitCode = 1
}
