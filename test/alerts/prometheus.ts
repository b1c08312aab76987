/** A real Prometheus with the project's rules, whose windows and delays are shortened, over targets on this machine. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { freePort } from '../../dev/embedded-postgres.ts'
import { scaled } from '../../dev/slowness.ts'
import { until } from '../../dev/until.ts'

const folder = join(import.meta.dirname, '../../ops/prometheus')
const interval = '1s'
/** In which a process can start four times. */
const window = `${scaled(30_000)}ms`

interface Rule {
  name: string
  type: 'alerting' | 'recording'
  query: string
  alerts?: { state: string }[]
}

/** Starts Prometheus with the targets of these jobs, as host:port; ends it at teardown. */
export async function startPrometheus(t: Test, jobs: Record<string, string[]>) {
  const config = parse(await readFile(join(folder, 'prometheus.yml'), 'utf8'))
  config.global = { scrape_interval: interval, evaluation_interval: interval }
  config.scrape_configs = Object.keys(jobs).map((job) => ({
    job_name: job,
    file_sd_configs: [{ files: [`${job}.json`] }]
  }))
  const rules = (await readFile(join(folder, 'rules.yml'), 'utf8'))
    .replace(/\[\d+[mh]\]/g, `[${window}]`)
    .replace(/^( +for:) .*/gm, '$1 1s')
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-prometheus-'))
  await writeFile(join(directory, 'prometheus.yml'), stringify(config))
  await writeFile(join(directory, 'rules.yml'), rules)
  const setTargets = async (job: string, targets: string[]) => {
    await writeFile(join(directory, 'new'), JSON.stringify([{ targets }]))
    await rename(join(directory, 'new'), join(directory, `${job}.json`))
  }
  for (const [job, targets] of Object.entries(jobs)) await setTargets(job, targets)
  const address = `127.0.0.1:${await freePort()}`
  const flags = [
    '--config.file=prometheus.yml',
    '--storage.tsdb.path=data',
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
  const read = async (path: string) =>
    JSON.parse(await (await fetch(`http://${address}/api/v1/${path}`)).text()).data
  const readRules = async (): Promise<Rule[]> =>
    (await read('rules')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
  return {
    rules: readRules,
    setTargets,
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
