/** ops/grafana/dashboard.json: Grafana's dashboard, from the table of its panels. */
import { type Panel, rows } from './panels.ts'

const datasource = { type: 'prometheus', uid: `\${datasource}` }
const service = 'service="plant-store"'
const environment = `${service}, environment="$environment"`
/** What stands for labels in the table of the panels. */
const select = (query: string) =>
  query.replaceAll('@', `${environment}, instance=~"$instance"`).replaceAll('#', environment)

const link = (title: string, path: string, icon: string, tooltip = '') => ({
  type: 'link' as const,
  title,
  url: `\${prometheus}${path}`,
  icon,
  targetBlank: true,
  asDropdown: false,
  includeVars: false,
  keepTime: false,
  tags: [],
  tooltip
})

/** Grafana's columns, and how many of them, and how many lines, a panel takes. */
const columns = 24
const size = 8

/** Returns the targets of a panel, which Grafana calls A, B, C. */
const targetsOf = ({ queries, type }: Panel) =>
  Object.entries(queries).map(([legendFormat, query], index) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + index),
    datasource,
    expr: select(query),
    legendFormat,
    ...(type === 'table' && { instant: true, format: 'table' })
  }))

const timeseries = {
  legend: { displayMode: 'list', placement: 'bottom' },
  tooltip: { mode: 'multi', sort: 'desc' }
}

/** Returns the panels of a row, from left to right, below each other where they find no room, and where the next row begins. */
function placeRow(title: string, panels: readonly Panel[], top: number) {
  const heading = {
    type: 'row',
    title,
    gridPos: { h: 1, w: columns, x: 0, y: top },
    collapsed: false,
    panels: []
  }
  let [x, y] = [0, top + 1]
  const placed = panels.map((panel) => {
    const { title, description, runbook, unit = 'short', max, width: w = size, type = 'timeseries' } = panel
    if (x + w > columns) [x, y] = [0, y + size]
    const gridPos = { h: size, w, x, y }
    x += w
    return {
      type,
      title,
      description,
      links: [link('Run-book', `/user/runbook.html#${runbook}`, 'doc')],
      datasource,
      gridPos,
      fieldConfig: { defaults: { unit, min: 0, ...(max !== undefined && { max }) }, overrides: [] },
      ...(type === 'timeseries' && { options: timeseries }),
      targets: targetsOf(panel)
    }
  })
  return { panels: [heading, ...placed], end: y + size }
}

function placePanels() {
  let top = 0
  const panels = Object.entries(rows).flatMap(([title, members]) => {
    const row = placeRow(title, members, top)
    top = row.end
    return row.panels
  })
  return panels.map((panel, index) => ({ id: index + 1, ...panel }))
}

/** A variable that has the values of a label. */
const variable = (name: string, label: string, selector: string) => ({
  name,
  label,
  type: 'query',
  datasource,
  query: { query: `label_values(plant_store_build_info{${selector}}, ${name})`, refId: name },
  refresh: 2,
  sort: 1
})

const all = { text: 'All', value: '$__all' }
const prometheus = { text: 'http://127.0.0.1:9090', value: 'http://127.0.0.1:9090' }

/** Marks when a version starts. */
const starts = {
  name: 'Starts',
  enable: true,
  iconColor: 'blue',
  datasource,
  expr: select(
    '1000 * process_start_time_seconds{@} * on (environment, instance) group_left (version) plant_store_build_info{#}'
  ),
  useValueForTime: 'on',
  step: '60s',
  titleFormat: '{{version}} starts',
  textFormat: '{{instance}}'
}

/** Returns the dashboard's text. */
export function writeDashboard(): string {
  const dashboard = {
    uid: 'plant-store',
    title: 'Plant Store',
    description: 'Made from dev/generated/panels.ts by `npm run generate`: change that.',
    tags: ['plant-store'],
    schemaVersion: 39,
    editable: true,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    graphTooltip: 1,
    annotations: { list: [starts] },
    links: [
      link(
        'Run-book: alerts, SQLSTATE, failures, overload, backup',
        '/user/runbook.html',
        'doc',
        'What to do, with commands'
      ),
      link('Alerts', '/alerts', 'bolt', 'What fires, and since when')
    ],
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', hide: 0 },
        variable('environment', 'Environment', service),
        { ...variable('instance', 'Instance', environment), multi: true, includeAll: true, current: all },
        {
          name: 'prometheus',
          label: 'Prometheus at',
          type: 'textbox',
          query: prometheus.value,
          current: prometheus,
          options: [{ ...prometheus, selected: true }]
        }
      ]
    },
    panels: placePanels()
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}
