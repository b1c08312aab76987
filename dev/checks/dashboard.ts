/** Fails if the dashboard does not match Grafana's schema, which is a package of TypeScript types. */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
const dashboard = readFileSync(join(root, 'ops/grafana/dashboard.json'), 'utf8')
// Next to the package with the types. As a literal: in one, TypeScript refuses unknown fields, too.
const file = join(import.meta.dirname, `.dashboard-${process.pid}.ts`)
// The schema leaves out what an annotation asks of Prometheus.
const annotation = `{ expr: string; step: string; titleFormat: string; textFormat: string; useValueForTime: 'on' }`
const type = `import('@grafana/schema').Dashboard & { annotations: { list: ${annotation}[] } }`
writeFileSync(file, `export const dashboard: ${type} = ${dashboard}`)
const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
const { status } = spawnSync(join(root, 'node_modules/.bin/tsc'), [...options, file], { stdio: 'inherit' })
rmSync(file)
process.exitCode = status ?? 1
