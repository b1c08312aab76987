/** The page's lines that wait for the migration end with its Job, whatever becomes of it. Kubernetes is a stand-in that serves one Job. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { directory } from './kubernetes.ts'

const page = readFileSync(join(import.meta.dirname, '../..', directory, 'README.md'), 'utf8')
const lines = page.split('\n').filter((line) => /^ {4}kubectl .* wait /.test(line))

/** What `kubectl` asks for before it looks at a Job. */
const discovery: Record<string, object> = {
  '/api': { kind: 'APIVersions', versions: ['v1'] },
  '/apis': {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: [{ name: 'batch', versions: [{ groupVersion: 'batch/v1', version: 'v1' }] }]
  },
  '/apis/batch/v1': {
    kind: 'APIResourceList',
    groupVersion: 'batch/v1',
    resources: [
      { name: 'jobs', singularName: 'job', namespaced: true, kind: 'Job', verbs: ['get', 'list', 'watch'] }
    ]
  }
}

/** Serves a Job that runs until somebody watches it, and then has these conditions; returns the file that names the server. */
async function startCluster(t: Test, conditions: string[]): Promise<string> {
  let isOver = false
  const metadata = { name: 'plant-store-migration', namespace: 'plant-store', resourceVersion: '1' }
  const readJob = () => {
    const reached = conditions.map((type) => ({ type, status: 'True' }))
    const status = isOver ? { conditions: reached } : { active: 1 }
    return { apiVersion: 'batch/v1', kind: 'Job', metadata, status }
  }
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url as string, 'http://cluster.test')
    response.setHeader('content-type', 'application/json')
    if (searchParams.get('watch')) {
      isOver = true
      response.write(`${JSON.stringify({ type: 'MODIFIED', object: readJob() })}\n`)
    } else if (pathname.endsWith('/jobs/plant-store-migration')) response.end(JSON.stringify(readJob()))
    else if (pathname.endsWith('/jobs')) {
      const list = { apiVersion: 'batch/v1', kind: 'JobList', metadata, items: [readJob()] }
      response.end(JSON.stringify(list))
    } else
      response.writeHead(pathname in discovery ? 200 : 404).end(JSON.stringify(discovery[pathname] ?? {}))
  }).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'one', cluster: { server: `http://127.0.0.1:${port}` } }],
    contexts: [{ name: 'one', context: { cluster: 'one', user: 'one' } }],
    users: [{ name: 'one', user: {} }],
    'current-context': 'one'
  }
  return join(t.testdir({ config: JSON.stringify(config) }), 'config')
}

/** Runs the lines as a person who pastes them; `apply` is only told. */
async function runLines(t: Test, conditions: string[]) {
  const config = await startCluster(t, conditions)
  const apply = 'kubectl() { if [[ $1 == apply ]]; then echo applied; else command kubectl "$@"; fi; }'
  const child = spawn('bash', ['-c', [apply, ...lines].join('\n')], {
    env: { ...process.env, KUBECONFIG: config, KUBECACHEDIR: join(config, '../cache') },
    detached: true
  })
  // Fails the test where the Job has ended and the lines wait on.
  const timer = setTimeout(() => process.kill(-(child.pid as number), 'SIGKILL'), 60_000)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close')
  ])
  clearTimeout(timer)
  return { code, stdout, stderr }
}

const skip = spawnSync('kubectl', ['version', '--client']).status !== 0 && 'kubectl is not on the PATH'
const met = 'job.batch/plant-store-migration condition met\n'

t.test('a Job that completes: the service is deployed', { skip }, async (t) => {
  t.equal(lines.length, 2)
  const ended = await runLines(t, ['SuccessCriteriaMet', 'Complete'])
  t.strictSame(ended, { code: 0, stdout: `${met}${met}applied\n`, stderr: '' })
})

t.test('a Job that fails: the lines end, and nothing is deployed', { skip }, async (t) => {
  const { code, stdout, stderr } = await runLines(t, ['FailureTarget', 'Failed'])
  t.match({ code, stdout }, { code: 1, stdout: met })
  t.match(stderr, 'timed out waiting for the condition on jobs/plant-store-migration')
})
