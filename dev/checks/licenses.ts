/** Lists the packages that ship, by licence, and fails if a licence is not accepted. */
import { readShipped } from '../shipped.ts'

const accepted = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT'
])

const byLicence = Map.groupBy(readShipped(), ({ license }) => license)
for (const [licence, packages] of [...byLicence].sort()) {
  const names = new Set(packages.map(({ name, version }) => `${name}@${version}`))
  process.stdout.write(`${licence} (${names.size})\n  ${[...names].sort().join('\n  ')}\n`)
}
const refused = [...byLicence.keys()].filter((licence) => !accepted.has(licence))
if (refused.length > 0) {
  process.stderr.write(`licences: not accepted: ${refused.join(', ')}\n`)
  process.exitCode = 1
}
