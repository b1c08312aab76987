/** Writes sbom.cdx.json, the CycloneDX list of what ships, and fails if it is incomplete. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readShipped } from '../shipped.ts'

interface Component {
  type: string
  group?: string
  name: string
  version: string
  components?: Component[]
}

const root = join(import.meta.dirname, '../..')
const command = join(import.meta.dirname, 'node_modules/.bin/cyclonedx-npm')
const flags = '--package-lock-only --omit dev --mc-type application --output-reproducible --output-file -'
const sbom = JSON.parse(execFileSync(command, flags.split(' '), { cwd: root, encoding: 'utf8' }))

const nameOf = ({ group, name, version }: Component) => `${group ? `${group}/` : ''}${name}@${version}`
/** The components within components too. */
const flatten = (components: Component[] = []): Component[] =>
  components.flatMap((component) => [component, ...flatten(component.components)])

const listed = new Set(flatten(sbom.components).map(nameOf))
const shipped = new Map(readShipped().map((one) => [`${one.name}@${one.version}`, one]))

const missing = [...shipped.keys()].filter((one) => !listed.has(one))
const foreign = [...listed].filter((one) => !shipped.has(one))
if (missing.length + foreign.length > 0) {
  throw new Error(
    `the list lacks ${missing.join(', ') || 'nothing'}, and has ${foreign.join(', ') || 'nothing'} that does not ship`
  )
}
writeFileSync(join(root, 'sbom.cdx.json'), `${JSON.stringify(sbom, null, 2)}\n`)
process.stdout.write(`sbom.cdx.json: ${listed.size} packages\n`)
