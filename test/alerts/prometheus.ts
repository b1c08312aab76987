/** A real Prometheus with the project's configuration, over targets on this machine, and rules with shorter times. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const folder = join(import.meta.dirname, '../../ops/prometheus')
const interval = '1s'
/** A time in which a process can start four times. */
const window = `${scaled(30_000)}ms`

interface Rule {
  name: string
  type: 'alerting' | 'recording'
  query: string
  alerts?: { state: string }[]
}

/** Returns the rules with times that a test can wait for; a condition holds for some seconds before its alert fires. */
export const shorten = (rules: string, seconds: number) =>
  rules.replace(/\[\d+[mhd](:?)\w*\]/g, `[${window}$1]`).replace(/^( +for:) .*/gm, `$1 ${seconds}s`)

/** Asks the Prometheus at an address, host:port. */
export function askPrometheus(address: string) {
  const read = async (path: string) =>
    JSON.parse(await (await fetch(`http://${address}/api/v1/${path}`)).text()).data
  const readRules = async (): Promise<Rule[]> =>
    (await read('rules')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
  return {
    rules: readRules,
    /** Its version. */
    version: async (): Promise<string> => (await read('status/buildinfo')).version,
    /** The names of all metrics that it has met. */
    metrics: (): Promise<string[]> => read('label/__name__/values'),
    /** The alerts that fire now. */
    async firing(): Promise<string[]> {
      const rules = await readRules()
      const fires = ({ alerts = [] }: Rule) => alerts.some(({ state }) => state === 'firing')
      return rules.filter(fires).map(({ name }) => name)
    },
    /** The values of a query. */
    async values(query: string): Promise<string[]> {
      const { result } = await read(`query?query=${encodeURIComponent(query)}`)
      return result.map(({ value: [, text] }: { value: [number, string] }) => text)
    }
  }
}

/** Addresses as host:port, with labels for them. */
type Targets = { targets: string[]; labels?: Record<string, string> }[]

/**
 * Starts Prometheus; ends it at teardown. The targets are what the names in its configuration stand for. A job without
 * targets scrapes Prometheus itself, which serves the pages, as `/user/<name>.prom`.
 */
export async function startPrometheus(t: Test, jobs: Record<string, Targets>, pages: Record<string, string>) {
  const config = parse(await readFile(join(folder, 'prometheus.yml'), 'utf8'))
  const rules = shorten(await readFile(join(folder, 'rules.yml'), 'utf8'), 1)
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-prometheus-'))
  await mkdir(join(directory, 'pages'))
  const address = `127.0.0.1:${await freePort()}`
  const put = async (file: string, content: string) => {
    await writeFile(join(directory, 'new'), content)
    await rename(join(directory, 'new'), join(directory, file))
  }
  const setTargets = (job: string, targets: Targets) => put(`${job}.json`, JSON.stringify(targets))
  const setPage = (name: string, page: string) => put(`pages/${name}.prom`, page)
  const removePages = (...names: string[]) =>
    Promise.all(names.map((name) => rm(join(directory, `pages/${name}.prom`))))

  const shipped: { job_name: string }[] = config.scrape_configs
  config.alerting = undefined
  config.global = { scrape_interval: interval, evaluation_interval: interval }
  config.scrape_configs = shipped.map(({ job_name: name, ...job }) => ({
    ...(!(name in jobs) && { metrics_path: `/user/${name}.prom` }),
    ...job,
    job_name: name,
    static_configs: undefined,
    dns_sd_configs: undefined,
    file_sd_configs: [{ files: [`${name}.json`] }]
  }))
  for (const { job_name: name } of config.scrape_configs)
    await setTargets(name, jobs[name] ?? [{ targets: [address] }])
  for (const [name, page] of Object.entries(pages)) await setPage(name, page)
  await put('prometheus.yml', stringify(config))
  await put('rules.yml', rules)
  const flags = [
    '--config.file=prometheus.yml',
    '--storage.tsdb.path=data',
    '--web.user-assets=pages',
    `--web.listen-address=${address}`
  ]
  const child = spawn('prometheus', [...flags, '--log.level=error'], {
    cwd: directory,
    stdio: ['ignore', 'inherit', 'inherit']
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(directory, { recursive: true, force: true })
  })
  await until('Prometheus is ready', async () => (await fetch(`http://${address}/-/ready`)).ok)
  return { ...askPrometheus(address), setTargets, setPage, removePages }
}
