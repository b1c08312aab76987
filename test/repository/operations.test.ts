/** What operators get: rules, dashboard and documents name the metrics that exist. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { startService, token } from '../../harness/service/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { byClass, byCode } from '../../src/database/errors.ts'
import { catalogue } from '../../src/failures/catalogue.ts'
import { knownCodes } from '../../src/metrics/reports.ts'
import { readCases } from '../alerts/promtool.ts'
import { deadlineMs, settings } from '../stacks/settings.ts'

const root = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(root, path), 'utf8')
const namesIn = (source: string) => source.match(/\b(plant_store|process|nodejs)_[a-z0-9_]+\b/g) ?? []
const rules = text('ops/prometheus/rules.yml')
const manual = text('docs/monitoring.md')
const runbook = text('ops/prometheus/web/runbook.html')

/** The scripts that write pages for Prometheus. */
const writers = ['ops/nightly-backup', ...globSync('ops/compose/*', { cwd: root })]

const service = await startService(t)
await service.post({ id: 1, name: 'n' })
const { types } = parseMetrics(await service.metrics())

t.test('the rules and the dashboard use metrics that exist', async (t) => {
  // By their types: one that has counted nothing yet, such as the garbage collector's, has no sample.
  const existing = new Set(
    Object.entries(types).flatMap(([name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]
    )
  )
  // What scripts write for Prometheus.
  for (const script of writers)
    for (const [, name = ''] of text(script).matchAll(/\b(plant_store_\w+)(?:\{.*?\})? [$\d]/g))
      existing.add(name)
  for (const path of ['ops/prometheus/rules.yml', 'ops/grafana/dashboard.json']) {
    const names = [...new Set(namesIn(text(path)))]
    t.ok(names.length > 5)
    const unknown = names.filter((name) => !existing.has(name))
    t.strictSame(unknown, [], path)
  }
})

t.test('the rules name failures that exist', async (t) => {
  const names = [...rules.matchAll(/[{ ]name=~?"([\w|]+)"/g)].flatMap(([, names = '']) => names.split('|'))
  const tokens = ['InvalidToken', 'MalformedToken', 'MissingToken']
  t.strictSame([...new Set(names)].sort(), ['Internal', ...tokens, 'Overloaded', 'RefusedPlant'])
  for (const name of names) t.ok(name in catalogue, name)
})

t.test('each alert has cases that fire and are silent, a description, and its section', async (t) => {
  const alerts = rules.split('- alert: ').slice(1)
  const cases = readCases()
  const sections = [...manual.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading)
  const names = alerts.map((alert) => alert.split('\n')[0])
  t.strictSame(names, sections)
  for (const alert of alerts) {
    const name = alert.split('\n')[0] as string
    t.match(alert, /\n {10}summary: .+\n {10}description: .+\n/, name)
    t.match(alert, `runbook_url: '{{ $externalURL }}/user/runbook.html#${name.toLowerCase()}'\n`, name)
    const { fires, silent } = cases.get(name) ?? {}
    const isSilent = silent?.size || name === 'PlantStoreWatchdog'
    t.ok(fires?.size && isSilent, `${name} has a case for a fault and one for a quiet night`)
    t.match(runbook, `<h3 id="${name.toLowerCase()}">${name}</h3>\n<p>`, name)
  }
})

t.test('each SQLSTATE that metrics or the service tell apart has an entry in the run-book', async (t) => {
  const [, table = ''] = manual.split('\n## SQLSTATE\n')
  const rows = [...(table.split('\n## ')[0] ?? '').matchAll(/^\|`([\w `,…]+)`\|/gm)].map(
    ([, codes = '']) => codes
  )
  const listed = rows.flatMap((codes) => codes.split(/`, `/))
  const classes = Object.keys(byClass).map((code) => `${code}XXX`)
  for (const code of new Set([...knownCodes, ...Object.keys(byCode), ...classes])) {
    // What leaves an outcome open means something else than its class.
    const isOwn = byCode[code] === 'lost'
    const names = isOwn ? [code] : [code, `${code.slice(0, 2)}…`]
    t.ok(
      names.some((name) => listed.includes(name)),
      code
    )
  }
  for (const entry of listed) t.match(runbook, `<code>${entry}</code>`, entry)
})

t.test('what an operator sees while the database is away is what the sources have', async (t) => {
  const [, section = ''] = text('docs/running.md').split('\n## When the database is away\n')
  const cells = section
    .replace(/\n## .*/s, '')
    .split('\n')
    .filter((line) => line.startsWith('|') && line.includes('`'))
    .map((line) => line.split('|').slice(2))
  t.equal(cells.length, 5)
  const sources = globSync('src/**/*.ts', { cwd: root }).map(text).join('\n')
  const quoted = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, words]) => words as string)
  for (const [seen, metrics, log] of cells) {
    for (const name of quoted(seen)) t.ok(name in catalogue, name)
    for (const name of namesIn(metrics ?? '')) t.ok(name in types, name)
    for (const line of quoted(log)) t.ok(sources.includes(line.replace('…', '')), line)
  }
})

t.test('the dashboard names alerts that exist, and shows every metric of the service', async (t) => {
  for (const [name] of text('ops/grafana/dashboard.json').matchAll(/\bPlantStore\w+/g))
    t.match(rules, `- alert: ${name}\n`, name)
  const shown = new Set(
    namesIn(text('ops/grafana/dashboard.json')).map((name) => name.replace(/_(bucket|sum|count)$/, ''))
  )
  const hidden = Object.keys(types).filter((name) => name.startsWith('plant_store_') && !shown.has(name))
  t.strictSame(hidden, [])
})

t.test(
  'each link of the run-book leads to a section that it has, and each section has its commands',
  async (t) => {
    const ids = [...runbook.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id as string)
    t.strictSame(ids, [...new Set(ids)])
    for (const [, id = ''] of runbook.matchAll(/href="#([^"]+)"/g)) t.ok(ids.includes(id), id)
    const commands = (runbook.match(/(?<=<pre>)[^<]*/g) ?? []).join()
    t.match(commands, 'docker compose logs')
    t.match(commands, 'ops/restore', 'of another page')
  }
)

t.test('the documents name scripts, files and tests that exist', async (t) => {
  const { scripts } = JSON.parse(text('package.json'))
  const documents = [...globSync('*.md', { cwd: root }), ...globSync('{docs,deploy}/**/*.md', { cwd: root })]
  t.ok(documents.length > 10)
  for (const document of documents.filter((document) => document !== 'CHANGELOG.md')) {
    for (const [, script = ''] of text(document).matchAll(/\bnpm run ([\w:]+)/g)) {
      t.ok(script in scripts, `${document}: npm run ${script}`)
    }
    for (const [, file = ''] of text(document).matchAll(
      /\bnode ((?:src|test|bench|dev|deploy)\/[\w./-]+)/g
    )) {
      t.ok(existsSync(join(root, file)), `${document}: node ${file}`)
    }
  }
})

t.test(
  'each panel asks of one environment, and says what it shows, what is normal, and where more is',
  async (t) => {
    const { panels } = JSON.parse(text('ops/grafana/dashboard.json'))
    for (const { title, type, targets = [], description = '', links = [] } of panels) {
      t.match(title, /^\S.*\S$/)
      if (type === 'row') continue
      t.ok(targets.length > 0, title)
      for (const { expr } of targets)
        t.match(expr, 'service="plant-store", environment="$environment"', title)
      t.match(description, /^\S.{20,}\. Normal: .+\. \S.+\.$/, title)
      const [, id = ''] = links[0].url.split('/user/runbook.html#')
      t.ok(runbook.includes(` id="${id}"`), `${title}: ${id}`)
    }
  }
)

/** As `parse` has no type for what it returns. */
type Parsed = ReturnType<typeof parse>

/** Joins two mappings, and the mappings in them; anything else of the first is replaced. */
function unite(base: Parsed, own: Parsed): Parsed {
  const isMapping = (value: unknown) => value?.constructor === Object
  if (!isMapping(base) || !isMapping(own)) return own
  const entries = Object.entries(own).map(([key, value]) => [key, unite(base[key], value)])
  return { ...base, ...Object.fromEntries(entries) }
}

/** A Compose file, with what its services extend. */
function readCompose(file: string): Parsed {
  const { services } = parse(text(file), { merge: true, logLevel: 'error' }) // it would warn of !override
  const whole = Object.entries<Parsed>(services).map(([name, { extends: from, ...own }]) => [
    name,
    from ? unite(readCompose(join(dirname(file), from.file)).services[from.service], own) : own
  ])
  return { services: Object.fromEntries(whole) }
}

const stacks = ['docker-compose.yml', ...globSync('deploy/*/compose.yaml', { cwd: root })]
const compose = readCompose('docker-compose.yml')

t.test('docker compose passes on every setting of .env.example, but those that are its own', async (t) => {
  const known = [...text('.env.example').matchAll(/^#?([A-Z_]+)=/gm)].map(([, name]) => name as string)
  const passed = new Set(
    [...text('docker-compose.yml').matchAll(/\$\{([A-Z_]+):-/g)].map(([, name]) => name as string)
  )
  const ownBySecrets = /^(AUTH_TOKENS|DATABASE_URL|MIGRATION_DATABASE_URL)(_FILE)?$/
  const ownByNetwork = /^(HOST|METRICS_HOST|METRICS_PORT)$/
  t.ok(known.length > 20)
  t.strictSame(
    known.filter((name) => !passed.has(name) && !ownBySecrets.test(name) && !ownByNetwork.test(name)),
    []
  )
})

t.test('the balancer opens fewer connections than a replica admits, and lets requests wait', async (t) => {
  const { HAPROXY_SERVER_MAXCONN: given } = compose.services.balancer.environment
  const { MAX_CONNECTIONS: maxConnections } = readConfig({
    DATABASE_URL: 'postgres://plants@db.test/plants',
    AUTH_TOKENS: `tester:${token}`
  })
  const serverMaximum = Number(/\d+/.exec(given)?.[0])
  t.ok(2 * serverMaximum + 1 < maxConnections)
  const [, all] = /^ {2}maxconn (\d+)$/m.exec(text('ops/haproxy/haproxy.cfg')) ?? []
  t.match(text('docs/configuration.md'), `takes ${Number(all).toLocaleString('en')} connections in all`)
  for (const file of stacks) {
    const { balancer, api } = readCompose(file).services
    t.equal(balancer.environment.HAPROXY_SERVER_MAXCONN, given, file)
    const [replicas] = /\d+/.exec(`${api.deploy.replicas}`) ?? []
    t.ok(Number(replicas) * serverMaximum < Number(all), file)
  }
})

t.test('each service of each stack is confined, has no secret, and rotates its log', async (t) => {
  t.equal(stacks.length, 4)
  for (const file of stacks) {
    const { services } = readCompose(file)
    t.ok(Object.keys(services).length > 5)
    const tags: string[] = []
    for (const [name, service] of Object.entries<Parsed>(services)) {
      t.match(
        service,
        {
          read_only: true,
          cap_drop: ['ALL'],
          security_opt: ['no-new-privileges:true'],
          deploy: { resources: { limits: { cpus: '1', memory: /^\d+[GM]$/, pids: Number } } },
          logging: { driver: 'json-file', options: { 'max-size': /^\d+m$/, 'max-file': /^\d+$/ } }
        },
        `${file}: ${name}`
      )
      const variables = Object.entries(service.environment ?? {}).map((entry) => entry.join('='))
      const secrets = variables.filter((entry) => /PASSWORD=|TOKENS=|:\/\/[^/]*@/.test(entry))
      t.strictSame(secrets, [], `${file}: ${name}`)
      for (const volume of service.volumes ?? []) {
        if (`${volume.source ?? volume}`.startsWith('.'))
          t.match(volume, /:ro,z$/, 'SELinux lets the container read it')
      }
      if (service.build) tags.push(service.image)
    }
    t.strictSame(tags, [...new Set(tags)], `${file}: one service builds an image`)
  }
})

t.test('the token that the example shows does not work', async (t) => {
  const [, value] = /^#?AUTH_TOKENS=(.+)$/m.exec(text('.env.example')) ?? []
  t.throws(() => readConfig({ DATABASE_URL: 'postgres://a@b/c', AUTH_TOKENS: value }))
})

t.test('each Compose stack leaves a replica the time to respond to what it has', async (t) => {
  for (const file of stacks) {
    const { environment, stop_grace_period: grace } = readCompose(file).services.api
    const faulty = file.startsWith('deploy/') ? [settings] : []
    for (const given of [{}, ...faulty] as Record<string, string>[]) {
      const fill = (value: unknown) =>
        String(value).replace(/\$\{(\w+):-(.*)\}/, (_, own, usual) => given[own] ?? usual)
      const variables = Object.entries(environment)
        .filter(([name]) => /^(SHUTDOWN|HEADERS|WRITE)_/.test(name))
        .map(([name, value]) => [name, fill(value)])
      const config = readConfig({
        ...Object.fromEntries(variables),
        DATABASE_URL: 'postgres://plants@db.test/plants',
        AUTH_TOKENS: `tester:${token}`
      })
      if (given === settings) t.equal(config.write.deadlineMs, deadlineMs)
      const [, seconds, ms = 0] = /^(\d+)s(?:(\d+)ms)?$/.exec(fill(grace)) as RegExpExecArray
      t.ok(Number(seconds) * 1_000 + Number(ms) > config.SHUTDOWN_TIMEOUT_MS, `${file}: ${grace}`)
    }
  }
})

t.test('images are exact releases, and each can be replaced', async (t) => {
  const images = Object.values<{ image: string }>(compose.services).map(({ image }) => image)
  for (const image of images.filter((image) => !image.includes('PLANT_STORE_IMAGE'))) {
    t.match(
      image,
      /^\$\{[A-Z_]+_IMAGE:-[a-z./-]+:v?\d+\.\d+\.\d+(-[a-z]+)?\}$|^\$\{POSTGRES_IMAGE:-postgres:18\.\d+-[a-z]+\}$/
    )
  }
})

t.test('Grafana finds its data source and the dashboard where docker compose puts them', async (t) => {
  const { grafana, prometheus } = compose.services
  // What setup copies.
  t.strictSame(grafana.volumes, ['config:/config:ro'])
  t.equal(grafana.environment.GF_PATHS_PROVISIONING, '/config/grafana/provisioning')
  const { datasources } = parse(text('ops/grafana/provisioning/datasources/prometheus.yml'))
  t.match(datasources, [
    { type: 'prometheus', access: 'proxy', url: 'http://prometheus:9090', isDefault: true }
  ])
  t.ok(grafana.networks.some((network: string) => prometheus.networks.includes(network)))
  const { providers } = parse(text('ops/grafana/provisioning/dashboards/plant-store.yml'))
  t.equal(providers[0].options.path, '/config/grafana')
  t.equal(grafana.environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH, '/config/grafana/dashboard.json')
})
