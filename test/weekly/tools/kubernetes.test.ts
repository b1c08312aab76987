/** The manifests for Kubernetes are valid by its own definitions: TypeScript refuses unknown fields, too. */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { root } from '../../support/process.ts'

t.test('the manifests are valid', async (t) => {
  const files = globSync('deploy/kubernetes/*.yaml', { cwd: root }).filter(
    (path) => !/kustomization/.test(path)
  )
  // As kubectl reads YAML: version 1.1, in which 0440 is octal.
  const manifests = files
    .flatMap((path) => parseAllDocuments(readFileSync(join(root, path), 'utf8'), { version: '1.1' }))
    .map((document) => document.toJS())
  t.equal(manifests.length, 6)
  const literals = manifests.map((manifest, index) => {
    const type = `import('kubernetes-models/${manifest.apiVersion}').I${manifest.kind}`
    return `export const m${index}: ${type} = ${JSON.stringify(manifest)}`
  })
  const modules = t.fixture('symlink', join(import.meta.dirname, 'node_modules'))
  const cwd = t.testdir({ node_modules: modules, 'manifests.ts': literals.join('\n') })
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
  // tap puts a loader into NODE_OPTIONS, which the compiler cannot be loaded with.
  const command = ['-u', 'NODE_OPTIONS', join(root, 'node_modules/.bin/tsc'), ...options, 'manifests.ts']
  const { stdout, status } = spawnSync('env', command, { cwd, encoding: 'utf8' })
  t.strictSame([stdout, status], ['', 0])
})
