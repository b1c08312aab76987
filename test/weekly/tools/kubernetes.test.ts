/** The manifests for Kubernetes are valid by its own definitions. */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { root } from '../../support/process.ts'

/** A document of a manifest. */
interface Manifest {
  apiVersion: string
  kind: string
  // biome-ignore lint/suspicious/noExplicitAny: the test finds out what it holds
  [field: string]: any
}

/** As kubectl reads YAML: version 1.1, in which 0440 is octal. */
const files = globSync('deploy/kubernetes/*.yaml', { cwd: root })
const manifests: Manifest[] = files
  .filter((path) => !path.endsWith('kustomization.yaml'))
  .flatMap((path) => parseAllDocuments(readFileSync(join(root, path), 'utf8'), { version: '1.1' }))
  .map((document) => document.toJS())

/** The module that has a manifest's definition. */
const moduleOf = ({ apiVersion }: Manifest) => `kubernetes-models/${apiVersion}`

/**
 * Returns what is wrong with manifests. The schemas find missing fields, wrong types, values and formats; they allow
 * unknown fields, which the types of the same definitions do not: TypeScript refuses them in a literal.
 */
async function findFaults(t: Test, manifests: Manifest[]): Promise<string> {
  const faults: string[] = []
  for (const manifest of manifests) {
    const model = (await import(moduleOf(manifest)))[manifest.kind]
    try {
      new model(manifest).validate()
    } catch (error) {
      faults.push(`${manifest.kind}: ${(error as Error).message}`)
    }
  }
  const literals = manifests.map((manifest, index) => {
    const type = `import('${moduleOf(manifest)}').I${manifest.kind}`
    return `export const m${index}: ${type} = ${JSON.stringify(manifest)}`
  })
  const modules = t.fixture('symlink', join(import.meta.dirname, 'node_modules'))
  const cwd = t.testdir({ node_modules: modules, 'manifests.ts': literals.join('\n') })
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
  // tap puts a loader into NODE_OPTIONS, which the compiler cannot be loaded with.
  const command = ['-u', 'NODE_OPTIONS', join(root, 'node_modules/.bin/tsc'), ...options, 'manifests.ts']
  const { status, stdout, stderr } = spawnSync('env', command, { cwd, encoding: 'utf8' })
  return [...faults, ...(status === 0 ? [] : [stdout, stderr])].join('\n')
}

t.test('the manifests are valid', async (t) => {
  t.equal(manifests.length, 4)
  t.equal(await findFaults(t, manifests), '')
})
