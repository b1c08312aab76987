/** docs/capacity.md: its examples follow from its own table of costs, by the formula of the bench. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Costs, sizeFor } from '../bench/sizing.ts'
import type { Ids } from '../bench/table.ts'

const page = readFileSync(join(import.meta.dirname, '../docs/capacity.md'), 'utf8')
const secondsOfYear = 365 * 86_400

/** The costs of the largest table with the stack's settings. */
function costsOf(ids: Ids): Costs {
  const lines = [...page.matchAll(/^\|([\d,]+\|.*)\|$/gm)].map(([, line = '']) => line.split('|'))
  const costs = lines.findLast((cells) => cells[1] === ids && cells[2] === 'stack') ?? []
  const [rows] = costs
  const line = new RegExp(`^\\|${rows}\\|${ids}\\|([\\d.]+)\\|([\\d.]+)\\|[\\d.]+\\|$`, 'm').exec(
    page
  )
  const numbers = [...costs.slice(6, 10), ...(line?.slice(1) ?? [])]
  const [
    serviceUs = 0,
    postgresUs = 0,
    walBytes = 0,
    fullPages = 0,
    tableBytes = 0,
    indexBytes = 0
  ] = numbers.map((cell) => Number(cell.replaceAll(',', '')))
  return { ids, serviceUs, postgresUs, walBytes, fullPages, tableBytes, indexBytes }
}

t.test('the examples of a year', async (t) => {
  for (const ids of ['growing', 'random'] as const)
    for (const peak of [1_000, 20_000, 200_000, 2_000_000]) {
      const need = sizeFor({ peak, plants: peak * secondsOfYear }, costsOf(ids))
      const counts = [peak, need.replicas, need.postgresCores, need.sessions]
      const [rate, ...others] = counts.map((count) => count.toLocaleString('en-US'))
      const cells = [rate, ids, ...others, need.wal.toFixed(1), need.disk.toFixed(1)]
      t.ok(page.includes(`\n|${cells.join('|')}|\n`), cells.join(', '))
    }
})

t.test('the example with an average, a peak and losses', async (t) => {
  const [average, peak, losses, moreBytes] = [3_000, 6_000, 2, 40 - 16]
  const plants = average * 2 * secondsOfYear
  const needs = (['growing', 'random'] as const).map((ids) => {
    const costs = costsOf(ids)
    const longer = {
      ...costs,
      walBytes: costs.walBytes + moreBytes,
      tableBytes: costs.tableBytes + moreBytes
    }
    const [usual, most] = [average, peak].map((rate) => sizeFor({ peak: rate, plants }, longer))
    const walBytes = 2 * 900 * (most?.wal ?? 0) * 1e6
    return {
      replicas: (most?.replicas ?? 0) + losses,
      wal: most?.wal.toFixed(1),
      usualWal: usual?.wal.toFixed(1),
      walSize: Math.ceil(walBytes / 2 ** 30),
      disk: Math.ceil(((most?.disk ?? 0) + walBytes / 1e12) * 1.25)
    }
  })
  const lines: [string, (need: (typeof needs)[number]) => string][] = [
    ['replicas', ({ replicas }) => `**${replicas}**: `],
    ['WAL', ({ wal, usualWal }) => `${wal} MB/s at the peak, ${usualWal} on average`],
    ['`max_wal_size`', ({ walSize }) => `${walSize}GB`],
    ['disk, each node', ({ disk }) => `**${disk} TB**`]
  ]
  const example = page.slice(page.indexOf('### An example\n')).split('\n')
  for (const [what, cell] of lines) {
    const line = example.find((line) => line.startsWith(`|${what}|`)) ?? ''
    const cells = line.split('|').slice(2)
    for (const [i, need] of needs.entries())
      t.ok(cells[i]?.includes(cell(need)), `${what}: ${cell(need)}`)
  }
})
