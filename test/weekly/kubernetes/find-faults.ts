/** Checks manifests against Kubernetes' own API definitions. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Manifest } from './kubernetes.ts'

/** The package that has a manifest's definition. */
const moduleOf = ({ apiVersion }: Manifest) =>
  apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`

/**
 * Returns what is wrong with manifests. The schemas find missing fields, wrong types, values and formats; they allow
 * unknown fields, which the types of the same definitions do not: TypeScript refuses them in a literal.
 */
export async function findFaults(t: Test, manifests: Manifest[]): Promise<string[]> {
  const faults: string[] = []
  for (const manifest of manifests) {
    const model = (await import(moduleOf(manifest)))[manifest.kind]
    try {
      new model(manifest).validate()
    } catch (error) {
      faults.push(`${manifest.kind}: ${(error as Error).message}`)
    }
  }
  return [...faults, ...checkTypes(t, manifests)]
}

function checkTypes(t: Test, manifests: Manifest[]): string[] {
  const lines = manifests.map(
    (manifest, index) =>
      `export const m${index}: import('${moduleOf(manifest)}').I${manifest.kind} = ${JSON.stringify(manifest)}`
  )
  const directory = t.testdir({
    node_modules: t.fixture('symlink', join(import.meta.dirname, 'node_modules')),
    'manifests.ts': lines.join('\n')
  })
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
  const compiler = join(import.meta.dirname, '../../node_modules/.bin/tsc')
  // tap puts a loader into NODE_OPTIONS, which the compiler cannot be loaded with.
  const command = ['-u', 'NODE_OPTIONS', compiler, ...options, 'manifests.ts']
  const { status, stdout, stderr } = spawnSync('env', command, { cwd: directory, encoding: 'utf8' })
  return status === 0 ? [] : `${stdout}${stderr}`.trimEnd().split('\n')
}
