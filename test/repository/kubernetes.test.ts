/** The manifests for Kubernetes are in step with the service that they start. That they are valid: test/kubernetes. */
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startService, token } from '../../harness/service/service.ts'
import { readConfig, readMigrationConfig } from '../../src/config/config.ts'
import { directory, findKind, type Manifest, readPlain } from '../kubernetes/kubernetes.ts'

const root = join(import.meta.dirname, '../..')
const plain = readPlain()
const find = (kind: string) => findKind(plain, kind)
const { spec: deployment } = find('Deployment')
const { spec: pod } = deployment.template
const [api] = pod.containers
const { spec: job } = find('Job').spec.template
const [migration] = job.containers

/** A container's variables; what a secret's file says stands in their place, under a name without _FILE. */
function environmentOf(container: Manifest): Record<string, string> {
  const secrets: Record<string, string> = {
    AUTH_TOKENS_FILE: `tester:${token}`,
    DATABASE_URL_FILE: 'postgres://plants@db.test/plants',
    MIGRATION_DATABASE_URL_FILE: 'postgres://plants_owner@db.test/plants'
  }
  return Object.fromEntries(
    container.env.map(({ name, value }: { name: string; value: string }) =>
      name in secrets ? [name.replace(/_FILE$/, ''), secrets[name]] : [name, value]
    )
  )
}

t.test('each kustomization names the files next to it, and nothing else', async (t) => {
  const files = globSync(`${directory}/**/kustomization.yaml`, { cwd: root })
  t.equal(files.length, 5)
  for (const file of files) {
    const { resources, secretGenerator = [] } = parse(readFileSync(join(root, file), 'utf8'))
    const own = globSync('*.yaml', { cwd: join(root, dirname(file)), exclude: ['kustomization.yaml'] })
    const named = resources.filter((resource: string) => resource.endsWith('.yaml'))
    t.strictSame(named.toSorted(), own.toSorted(), file)
    for (const other of resources.filter((resource: string) => !resource.endsWith('.yaml'))) {
      t.ok(files.includes(join(dirname(file), other, 'kustomization.yaml')), `${file}: ${other}`)
    }
    for (const { files: sources } of secretGenerator) {
      for (const source of sources) t.match(source, /^\w+=[\w-]+\.secret$/, 'git ignores it')
    }
  }
})

t.test('the variables are settings, and the service takes their values', async (t) => {
  const known = readFileSync(join(root, '.env.example'), 'utf8')
  for (const name of [api, migration].flatMap((container) => Object.keys(environmentOf(container)))) {
    t.match(known, new RegExp(`^#?${name}=`, 'm'))
  }
  const config = readConfig(environmentOf(api))
  t.match(config, { HOST: '0.0.0.0', metrics: { host: '0.0.0.0' }, database: { host: 'db.test' } })
  t.equal(readMigrationConfig(environmentOf(migration)).database.user, 'plants_owner')
})

t.test('ports, paths, labels and secrets agree', async (t) => {
  const config = readConfig(environmentOf(api))
  t.strictSame(api.ports, [
    { name: 'http', containerPort: config.PORT },
    { name: 'metrics', containerPort: config.metrics?.port }
  ])
  const { labels } = deployment.template.metadata
  t.strictSame(find('Service').spec.selector, labels)
  t.equal(find('Service').spec.ports[0].targetPort, 'http')
  t.strictSame(find('PodDisruptionBudget').spec.selector.matchLabels, labels)
  t.strictSame(deployment.selector.matchLabels, labels)
  t.equal(find('HorizontalPodAutoscaler').spec.scaleTargetRef.name, find('Deployment').metadata.name)
  const covered = plain
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map(({ spec }) => spec.podSelector.matchLabels['app.kubernetes.io/component'])
  const component = (one: Manifest) => one.spec.template.metadata.labels['app.kubernetes.io/component']
  t.strictSame(covered.sort(), [component(find('Deployment')), component(find('Job'))].sort())
  for (const { containers, volumes } of [pod, job]) {
    for (const { env, volumeMounts } of containers) {
      const paths = env.filter(({ name }: { name: string }) => name.endsWith('_FILE'))
      t.ok(paths.length > 0)
      for (const { name, value } of paths) {
        const mount = volumeMounts.find(
          ({ mountPath }: { mountPath: string }) => mountPath === dirname(value)
        )
        t.notOk(mount.subPath, `${name}: a directory`)
        const volume = volumes.find((one: { name: string }) => one.name === mount.name)
        t.equal(volume.secret.secretName, basename(dirname(value)))
      }
    }
  }
})

t.test('both policies let a pod ask the cluster for names, also by a cache of its node', async (t) => {
  const ports = [
    { port: 53, protocol: 'UDP' },
    { port: 53, protocol: 'TCP' }
  ]
  for (const { metadata, spec } of plain.filter(({ kind }) => kind === 'NetworkPolicy')) {
    const [{ to, ...rule }] = spec.egress
    t.strictSame(rule, { ports }, metadata.name)
    const { namespaceSelector, podSelector } = to[0]
    t.match(namespaceSelector.matchLabels, { 'kubernetes.io/metadata.name': 'kube-system' })
    t.match(podSelector.matchLabels, { 'k8s-app': 'kube-dns' })
    t.strictSame(to[1], { ipBlock: { cidr: '169.254.20.10/32' } })
  }
})

t.test('nodes keep an image, whose tag never changes', async (t) => {
  for (const { imagePullPolicy } of [api, migration]) t.equal(imagePullPolicy, 'IfNotPresent')
  const examples = globSync(`${directory}/example/**/kustomization.yaml`, { cwd: root })
  t.equal(examples.length, 2)
  for (const file of examples) {
    const { images } = parse(readFileSync(join(root, file), 'utf8'))
    for (const { newTag } of images) t.match(newTag, /^\d+\.\d+\.\d+(-\d{8})?$/, file)
  }
})

t.test('only the Prometheus Operator scrapes the pods, by the name of its rules', async (t) => {
  const { spec: monitor } = find('PodMonitor')
  const { labels, annotations } = deployment.template.metadata
  t.equal(annotations, undefined, 'no annotation asks for it once more')
  t.strictSame(monitor.selector.matchLabels, labels)
  t.ok(api.ports.some(({ name }: { name: string }) => name === monitor.podMetricsEndpoints[0].port))
  const rules = parse(readFileSync(join(root, 'ops/prometheus/rules.yml'), 'utf8'))
  t.match(JSON.stringify(rules), `job=\\"${labels[monitor.jobLabel]}\\"`)
  t.strictSame(monitor.podMetricsEndpoints[0].relabelings, [
    { targetLabel: 'service', replacement: 'plant-store' },
    { sourceLabels: ['__meta_kubernetes_namespace'], targetLabel: 'environment' }
  ])
})

t.test('a pod has the time that it needs to start and to shut down', async (t) => {
  const config = readConfig(environmentOf(api))
  const { periodSeconds, failureThreshold } = api.startupProbe
  t.ok(config.STARTUP_TIMEOUT_MS >= 3_600_000, 'in an outage of the database it waits')
  t.ok(periodSeconds * failureThreshold * 1000 > config.STARTUP_TIMEOUT_MS, 'it ends by itself')
  t.ok(pod.terminationGracePeriodSeconds * 1000 > config.SHUTDOWN_TIMEOUT_MS)
  t.strictSame(deployment.strategy.rollingUpdate, { maxUnavailable: 0, maxSurge: 1 })
  for (const { labelSelector, matchLabelKeys } of pod.topologySpreadConstraints) {
    t.strictSame(labelSelector.matchLabels, deployment.template.metadata.labels)
    t.strictSame(matchLabelKeys, ['pod-template-hash'], 'the pods of this release alone are spread')
  }
  t.notOk('replicas' in deployment, 'the autoscaler sets them')
})

t.test('the containers fulfil the Pod Security Standard "restricted"', async (t) => {
  for (const spec of [pod, job]) {
    t.match(spec, {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } }
    })
    for (const { securityContext } of spec.containers) {
      t.strictSame(securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] }
      })
    }
  }
})

t.test('liveness is probed at the metrics, readiness where clients are served', async (t) => {
  const { url, metricsUrl } = await startService(t)
  for (const [probe, port, base] of [
    [api.startupProbe, 'metrics', metricsUrl()],
    [api.livenessProbe, 'metrics', metricsUrl()],
    [api.readinessProbe, 'http', url]
  ]) {
    t.equal(probe.httpGet.port, port)
    t.equal((await fetch(new URL(probe.httpGet.path, base))).status, 200)
  }
})
