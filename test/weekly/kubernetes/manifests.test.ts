/** The manifests for Kubernetes are valid by its own definitions, also as `kubectl kustomize` renders them. */
import { spawnSync } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findFaults } from './find-faults.ts'
import { directory, findKind, parseManifests, readPlain } from './kubernetes.ts'

const root = join(import.meta.dirname, '../..')
const plain = readPlain()

t.test('the plain manifests are valid', async (t) => {
  t.strictSame(plain.map(({ kind }) => kind).sort(), [
    'Deployment',
    'HorizontalPodAutoscaler',
    'Job',
    'NetworkPolicy',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'PodMonitor',
    'PrometheusRule',
    'Service',
    'ServiceAccount'
  ])
  t.strictSame(await findFaults(t, plain), [])
})

t.test('an unknown field and a bad value are found', async (t) => {
  const broken = structuredClone(plain)
  const { spec } = findKind(broken, 'Deployment')
  spec.template.spec.containers[0].readOnlyRootFilesytem = true
  findKind(broken, 'HorizontalPodAutoscaler').spec.minReplicas = 'three'
  findKind(broken, 'PodMonitor').spec.podMetricsEndpoints[0].prot = 'metrics'
  const faults = (await findFaults(t, broken)).join('\n')
  t.match(faults, 'HorizontalPodAutoscaler: data/spec/minReplicas must be integer')
  t.match(faults, /'"?prot"?' does not exist in type/)
  t.match(faults, `'"readOnlyRootFilesytem"' does not exist in type`)
})

const hasKubectl = spawnSync('kubectl', ['kustomize', '--help']).status === 0

t.test('the example renders', { skip: !hasKubectl && 'kubectl is not on the PATH' }, async (t) => {
  const copy = t.testdir({})
  cpSync(join(root, directory), copy, { recursive: true })
  for (const name of ['database-url', 'tokens', 'migration/migration-database-url']) {
    writeFileSync(join(copy, 'example', `${name}.secret`), 'text')
  }
  const rendered = ['example', 'example/migration'].flatMap((path) => {
    const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', join(copy, path)], {
      encoding: 'utf8'
    })
    t.equal(status, 0, stderr)
    return parseManifests(stdout)
  })
  t.equal(rendered.length, plain.length + 3 - 2, 'three secrets, and not the monitoring')
  for (const { metadata } of rendered) t.equal(metadata.namespace, 'plant-store')
  const secrets = rendered.filter((one) => one.kind === 'Secret').map(({ metadata }) => metadata.name)
  for (const name of ['plant-store-database', 'plant-store-tokens']) {
    t.ok(secrets.includes(name), `${name}: pods that run see its changes`)
  }
  for (const kind of ['Deployment', 'Job']) {
    const { containers, volumes } = findKind(rendered, kind).spec.template.spec
    t.match(containers[0].image, /^registry\.example\.com\/plant-store:/)
    for (const { secret } of volumes) t.ok(secrets.includes(secret.secretName), secret.secretName)
  }
  t.strictSame(await findFaults(t, rendered), [])
})
