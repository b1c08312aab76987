/** Fails if the dashboard does not match Grafana's schema, which is a package of TypeScript types. */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
const dashboard = readFileSync(join(root, 'ops/grafana/dashboard.json'), 'utf8')
// Next to the package with the types. As a literal: in one, TypeScript refuses unknown fields, too.
const file = join(import.meta.dirname, `.dashboard-${process.pid}.ts`)
writeFileSync(file, `export const dashboard: import('@grafana/schema').Dashboard = ${dashboard}`)
const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
const { status } = spawnSync(join(root, 'node_modules/.bin/tsc'), [...options, file], { stdio: 'inherit' })
rmSync(file)
process.exitCode = status ?? 1
