/** The comparison as a chart: docs/peers-light.svg and docs/peers-dark.svg, for the two themes of a reader. */
import type { Figures } from '../measure.ts'
import { formatNumber } from '../report.ts'
import type { Peers, Result } from './tables.ts'

interface Theme {
  text: string
  muted: string
  own: string
  other: string
}

const themes: Record<string, Theme> = {
  light: { text: '#1f2328', muted: '#59636e', own: '#1a7f37', other: '#b6bec7' },
  dark: { text: '#f0f6fc', muted: '#9198a1', own: '#3fb950', other: '#57606a' }
}

/** A column of bars. */
interface Panel {
  figure: keyof Figures
  title: string
  hint: string
  x: number
  /** Of its longest bar. */
  width: number
}

const panels: Panel[] = [
  { figure: 'plantsPerSecond', title: 'plants/s', hint: 'higher is better', x: 168, width: 220 },
  {
    figure: 'serverCpuUs',
    title: 'server CPU, µs/plant',
    hint: 'lower is better',
    x: 462,
    width: 140
  },
  { figure: 'peakMiB', title: 'peak memory, MiB', hint: 'lower is better', x: 666, width: 110 }
]
const width = 840
const firstBar = 112
const barStep = 32
const barHeight = 20

/** Draws the figures at the largest number of connections. Returns the texts of the SVG files by their names in docs/. */
export function drawCharts({ results, machine }: Peers): Record<string, string> {
  return Object.fromEntries(
    Object.entries(themes).map(([name, theme]) => [`peers-${name}.svg`, drawChart(results, machine, theme)])
  )
}

function drawChart(results: Result[], machine: string, theme: Theme): string {
  const height = firstBar + results.length * barStep + 28
  const connections = Math.max(...results.flatMap(({ load }) => load.map((figures) => figures.connections)))
  const bars = results.map(({ title, load }) => ({
    title,
    figures: load.find((figures) => figures.connections === connections) as Figures
  }))
  const title = `POST /plants with ${connections} connections`
  const figures = bars.map(({ title, figures }) => {
    const texts = panels.map((panel) => `${formatNumber(figures[panel.figure], 0)} ${panel.title}`)
    return `${title}: ${texts.join(', ')}.`
  })
  const names = bars.map(({ title }, index) =>
    text(
      { x: 156, y: middle(index), anchor: 'end', weight: index === 0 ? 600 : 400, fill: theme.text },
      title
    )
  )
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title description" font-family="system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif" font-size="13">`,
    `<title id="title">${escapeText(title)}</title>`,
    `<desc id="description">${escapeText(figures.join(' '))}</desc>`,
    text({ x: 16, y: 28, size: 18, weight: 600, fill: theme.text }, title),
    text(
      { x: 16, y: 48, size: 12, fill: theme.muted },
      'One Node.js process each, the same durable PostgreSQL; each alone; medians of several starts, of the memory the most'
    ),
    ...names,
    ...panels.flatMap((panel) => drawPanel(panel, bars, theme)),
    text({ x: 16, y: height - 8, size: 11, fill: theme.muted }, machine),
    '</svg>\n'
  ].join('\n')
}

function drawPanel(panel: Panel, bars: { figures: Figures }[], theme: Theme): string[] {
  const { figure, title, hint, x } = panel
  const most = Math.max(...bars.map(({ figures }) => figures[figure]))
  return [
    text({ x, y: firstBar - 30, weight: 600, fill: theme.text }, title),
    text({ x, y: firstBar - 14, size: 11, fill: theme.muted }, hint),
    ...bars.flatMap(({ figures }, index) => {
      const value = figures[figure]
      const length = Math.max(1, Math.round((value / most) * panel.width))
      const fill = index === 0 ? theme.own : theme.other
      const y = firstBar + index * barStep
      return [
        `<rect x="${x}" y="${y}" width="${length}" height="${barHeight}" rx="2" fill="${fill}"/>`,
        text(
          { x: x + length + 6, y: middle(index), weight: index === 0 ? 600 : 400, fill: theme.text },
          formatNumber(value, 0)
        )
      ]
    })
  ]
}

/** The baseline of a text that stands in the middle of a bar. */
const middle = (index: number) => firstBar + index * barStep + barHeight / 2 + 5

interface TextStyle {
  x: number
  y: number
  fill: string
  size?: number
  weight?: number
  anchor?: 'start' | 'end'
}

function text({ x, y, fill, size = 13, weight = 400, anchor = 'start' }: TextStyle, content: string): string {
  return `<text x="${x}" y="${y}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" fill="${fill}">${escapeText(content)}</text>`
}

function escapeText(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
