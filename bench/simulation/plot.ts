/** The simulation's plot: a small SVG that follows the reader's light or dark colours. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { docs } from '../report.ts'
import type { Comparison } from './comparison.ts'

const file = join(docs, 'simulation.svg')
const width = 340
const height = 240
const margin = { left: 64, right: 12, top: 30, bottom: 40 }

interface Point {
  connections: number
  value: number
}

interface Panel {
  title: string
  measured: Point[]
  simulated: Point[]
}

/** Writes docs/simulation.svg: what was measured as points, what was simulated of the same as a line between them. */
export async function writePlot(comparisons: Comparison[]): Promise<void> {
  const panel = (title: string, figure: 'plantsPerSecond' | 'p50Ms'): Panel => {
    const points = (kind: 'measured' | 'simulated') =>
      comparisons.map((comparison) => ({
        connections: comparison.connections,
        value: comparison[kind][figure]
      }))
    return { title, measured: points('measured'), simulated: points('simulated') }
  }
  await writeFile(file, draw([panel('plants/s', 'plantsPerSecond'), panel('p50, ms', 'p50Ms')]))
}

/** Draws the panels beside each other; both axes are logarithmic. */
export function draw(panels: Panel[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width * panels.length} ${height + 24}" role="img" font-family="sans-serif" font-size="11">
<title>Group commit, measured and simulated, by the number of connections</title>
<style>
  text { fill: #24292f } .axis { stroke: #d0d7de } .line { stroke: #0969da; fill: none; stroke-width: 2 } .point { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .axis { stroke: #444c56 } .line { stroke: #58a6ff } .point { fill: #f0883e } }
</style>
${panels.map((panel, index) => `<g transform="translate(${index * width} 0)">\n${drawPanel(panel)}\n</g>`).join('\n')}
<g transform="translate(${margin.left} ${height + 10})"><circle class="point" r="4" cx="4" cy="-4"/><text x="14">measured</text><path class="line" d="M90 -4h20"/><text x="116">simulated</text></g>
</svg>
`
}

function drawPanel({ title, measured, simulated }: Panel): string {
  const all = [...measured, ...simulated]
  const x = scale(
    all.map(({ connections }) => connections),
    margin.left,
    width - margin.right
  )
  const y = scale(
    all.map(({ value }) => value),
    height - margin.bottom,
    margin.top
  )
  const place = ({ connections, value }: Point) => `${x.at(connections)} ${y.at(value)}`
  return [
    `<text x="${margin.left}" y="16" font-weight="bold">${title}</text>`,
    ...y.ticks.flatMap((tick) => [
      `<path class="axis" d="M${margin.left} ${y.at(tick)}H${width - margin.right}"/>`,
      `<text x="${margin.left - 6}" y="${y.at(tick) + 4}" text-anchor="end">${tick.toLocaleString('en-US')}</text>`
    ]),
    ...measured.map(
      ({ connections }) =>
        `<text x="${x.at(connections)}" y="${height - margin.bottom + 16}" text-anchor="middle">${connections}</text>`
    ),
    `<text x="${(margin.left + width - margin.right) / 2}" y="${height - 8}" text-anchor="middle">connections</text>`,
    `<path class="line" d="M${simulated.map(place).join('L')}"/>`,
    ...measured.map(
      (point) => `<circle class="point" r="4" cx="${x.at(point.connections)}" cy="${y.at(point.value)}"/>`
    )
  ].join('\n')
}

/** A logarithmic scale over the values, from whole steps of 1, 2, 5 to whole steps. */
function scale(values: number[], from: number, to: number) {
  const steps = Array.from({ length: 30 }, (_, index) =>
    [1, 2, 5].map((step) => step * 10 ** (index - 10))
  ).flat()
  const least = Math.min(...values)
  const most = Math.max(...values)
  const low = steps.findLast((step) => step <= least) ?? least
  const high = steps.find((step) => step >= most) ?? most
  const at = (value: number) =>
    Math.round((from + (Math.log(value / low) / Math.log(high / low)) * (to - from)) * 10) / 10
  return { at, ticks: steps.filter((step) => step >= low && step <= high) }
}
