/**
 * The manifests for Kubernetes are valid by its own definitions, as they are and as kustomize builds the overlay of their page;
 * pods keep the Pod Security Standard "restricted"; and the example's limits are those of haproxy.cfg.
 */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
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

/** Reads documents as kubectl does: by YAML 1.1, in which 0440 is octal. */
const parseManifests = (text: string): Manifest[] =>
  parseAllDocuments(text, { version: '1.1' }).map((document) => document.toJS())

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const files = globSync('deploy/kubernetes/**/*.yaml', { cwd: root })
const manifests = files
  .filter((path) => !path.endsWith('kustomization.yaml'))
  .flatMap((path) => parseManifests(read(path)))

/** The module that has a manifest's definition. */
const moduleOf = ({ apiVersion }: Manifest) =>
  apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`

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
  const options = [
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext'
  ]
  // tap puts a loader into NODE_OPTIONS, which the compiler cannot be loaded with.
  const command = [
    '-u',
    'NODE_OPTIONS',
    join(root, 'node_modules/.bin/tsc'),
    ...options,
    'manifests.ts'
  ]
  const { status, stdout, stderr } = spawnSync('env', command, { cwd, encoding: 'utf8' })
  return [...faults, ...(status === 0 ? [] : [stdout, stderr])].join('\n')
}

t.test('the manifests are valid', async (t) => {
  t.equal(manifests.length, 9)
  t.equal(await findFaults(t, manifests), '')
})

/** What is in the way of the Pod Security Standard "restricted". */
function findRisks({ spec }: Manifest): string[] {
  const { securityContext: pod, containers, volumes, ...rest } = spec.template.spec
  const risks = Object.keys(rest).filter((field) => /^host(Network|PID|IPC|Users)$/.test(field))
  if (pod.runAsNonRoot !== true || pod.seccompProfile?.type !== 'RuntimeDefault')
    risks.push('the pod')
  for (const { name, securityContext, ports = [] } of containers) {
    const { allowPrivilegeEscalation, capabilities, ...others } = securityContext
    if (allowPrivilegeEscalation !== false || `${capabilities?.drop}` !== 'ALL' || capabilities.add)
      risks.push(name)
    if (others.privileged || others.runAsUser === 0 || others.procMount) risks.push(name)
    if (ports.some(({ hostPort }: { hostPort?: number }) => hostPort)) risks.push(name)
  }
  const kinds = volumes.flatMap(({ name, ...kind }: { name: string }) => Object.keys(kind))
  return [...risks, ...kinds.filter((kind: string) => !['configMap', 'secret'].includes(kind))]
}

t.test('pods keep the Pod Security Standard "restricted"', async (t) => {
  const withPods = manifests.filter(({ spec }) => spec?.template)
  t.strictSame(
    withPods.map(({ kind }) => kind),
    ['Deployment', 'Job']
  )
  for (const manifest of withPods) t.strictSame(findRisks(manifest), [], manifest.kind)
})

t.test('kustomize builds the overlay of the page', async (t) => {
  if (spawnSync('kubectl', ['version', '--client']).status !== 0)
    return t.pass('no kubectl here', { skip: true })
  const [, overlay = ''] = /```yaml\n(.+?)```/s.exec(read('deploy/kubernetes/README.md')) ?? []
  const cwd = t.testdir({ url: 'u', 'owner-url': 'o', tokens: 't', 'ca.crt': 'c' })
  // kustomize takes a relative path alone.
  const base = relative(cwd, join(root, 'deploy/kubernetes'))
  writeFileSync(
    join(cwd, 'kustomization.yaml'),
    overlay.replace(/^ {3}/gm, '').replace('PATH/deploy/kubernetes', base)
  )
  const { stdout, stderr } = spawnSync('kubectl', ['kustomize', '.'], { cwd, encoding: 'utf8' })
  t.equal(stderr, '')
  const built = parseManifests(stdout)
  t.equal(await findFaults(t, built), '')
  const names = built.map(({ kind, metadata }) => `${kind} ${metadata.namespace} ${metadata.name}`)
  t.strictSame(names.sort(), [
    'ConfigMap plant-store plant-store-database-ca',
    'Deployment plant-store plant-store',
    'Job plant-store plant-store-migration-2-0-0',
    'PodDisruptionBudget plant-store plant-store',
    'Secret plant-store plant-store-database',
    'Secret plant-store plant-store-migration',
    'Secret plant-store plant-store-tokens',
    'Service plant-store plant-store'
  ])
  for (const { kind, spec } of built.filter(({ spec }) => spec?.template)) {
    const [{ image }] = spec.template.spec.containers
    t.equal(image, 'ghcr.io/OWNER/plant-store:2.0.0', kind)
    // Every Secret and ConfigMap that it mounts is there, under its own name.
    for (const { secret, configMap } of spec.template.spec.volumes) {
      const name = secret
        ? `Secret plant-store ${secret.secretName}`
        : `ConfigMap plant-store ${configMap.name}`
      t.ok(names.includes(name), name)
    }
  }
})

t.test('times and ports fit each other', async (t) => {
  const { spec } = manifests.find(({ kind }) => kind === 'Deployment') as Manifest
  const [{ env, startupProbe, readinessProbe, livenessProbe }] = spec.template.spec.containers
  const ms = (name: string) =>
    Number(env.find((variable: { name: string }) => variable.name === name).value)
  const startup = startupProbe.periodSeconds * startupProbe.failureThreshold
  t.ok(ms('STARTUP_TIMEOUT_MS') / 1_000 < startup, 'a pod ends by itself before its probe gives up')
  t.ok(startup < spec.progressDeadlineSeconds, 'a rollout waits for as long as its pods')
  t.ok(ms('SHUTDOWN_DELAY_MS') / 1_000 + 25 < spec.template.spec.terminationGracePeriodSeconds)
  for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe])
    t.equal(httpGet.port, 'metrics')
})

/** The directives of a configuration of HAProxy that limit clients, in order, with the table of its own frontend. */
const limitsOf = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim().replace(' table addresses', ''))
    .filter((line) =>
      /^(stick-table|option disable-h2|tcp-request|http-request (sc-inc|deny.* 429)|http-response sc-inc|http-after)/.test(
        line
      )
    )
    .sort()

t.test('the limits of the Ingress example are those of haproxy.cfg', async (t) => {
  const { data } = manifests.find(({ kind }) => kind === 'ConfigMap') as Manifest
  const config = read('ops/haproxy/haproxy.cfg')
  const expected = limitsOf(config)
  t.ok(expected.length > 8)
  t.strictSame(limitsOf(data['frontend-config-snippet']), expected)
  t.equal(data.maxconn, /maxconn (\d+)/.exec(config)?.[1])
  const { metadata } = manifests.find(({ kind }) => kind === 'Ingress') as Manifest
  const others = [
    data['global-config-snippet'],
    metadata.annotations['haproxy.org/backend-config-snippet']
  ]
  for (const line of others.join('').trim().split('\n'))
    t.ok(config.replace('be_conn(api)', 'be_conn').includes(line.trim()), line)
  for (const [key, value] of Object.entries<string>(data).filter(([key]) =>
    /^(timeout|hard)/.test(key)
  ))
    t.match(config, `${key.replace('timeout-', 'timeout ')} ${value}\n`)
})

t.test('kustomize adds the tokens of service accounts, as their page says', async (t) => {
  if (spawnSync('kubectl', ['version', '--client']).status !== 0)
    return t.pass('no kubectl here', { skip: true })
  const [, indented = ''] = /```yaml\n(.+?)```/s.exec(read('docs/identity-provider.md')) ?? []
  const snippet = indented.replaceAll(/^ {3}/gm, '')
  const cwd = t.testdir({ 'keys.json': '{}' })
  const base = relative(cwd, join(root, 'deploy/kubernetes'))
  const overlay = `resources: [${base}]\n${snippet.replace('PATH/deploy/kubernetes', base)}`
  const options = 'generatorOptions: { disableNameSuffixHash: true }\n'
  writeFileSync(join(cwd, 'kustomization.yaml'), overlay + options)
  const { stdout, stderr } = spawnSync('kubectl', ['kustomize', '.'], { cwd, encoding: 'utf8' })
  t.equal(stderr, '')
  const built = parseManifests(stdout)
  t.equal(await findFaults(t, built), '')
  const find = (wanted: string) => built.find(({ kind }) => kind === wanted)
  const name = 'plant-store-identity-provider'
  t.match(find('ConfigMap'), { metadata: { name }, data: { issuer: /^https:/, 'keys.json': '{}' } })
  const pod = find('Deployment')?.spec.template.spec
  const issuer = {
    name: 'AUTH_JWT_ISSUER',
    valueFrom: { configMapKeyRef: { name, key: 'issuer' } }
  }
  t.match(pod.containers[0].env[0], issuer)
  t.ok(pod.volumes.some(({ configMap }: Manifest) => configMap?.name === name))
})
