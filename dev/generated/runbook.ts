/** ops/prometheus/web/runbook.html: the section on alerts of docs/monitoring.md, for Prometheus to serve. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const manual = join(import.meta.dirname, '../../docs/monitoring.md')

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Writes code and links within the page as HTML; of a link to another page, only its text. */
const toHtml = (text: string) =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\[([^\]]+)\]\((#\w+)\)/g, '<a href="$2">$1</a>')
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')

/** Returns the page: a heading and a paragraph for each alert, then a paragraph for each SQLSTATE. */
export function writeRunbook(): string {
  const text = readFileSync(manual, 'utf8')
  const part = (heading: string) => text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const alerts = part('Alerts')
  const rows = [...part('SQLSTATE').matchAll(/^\|(`.*)\|(.*)\|(.*)\|$/gm)]
  const codes = rows.map(([, ...cells]) => `<p>${cells.map(toHtml).join(': ')}</p>`)
  const sections = alerts.split('\n### ').slice(1)
  const lines = sections.flatMap((section) => {
    const [name = '', ...rest] = section.trim().split('\n')
    return [`<h2 id="${name.toLowerCase()}">${name}</h2>`, `<p>${toHtml(rest.join('\n'))}</p>`]
  })
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Plant Store: alerts</title>
<!-- Made by \`npm run generate\` from docs/monitoring.md; do not edit. -->
${lines.join('\n')}
<h2 id="sqlstate">SQLSTATE</h2>
${codes.join('\n')}
</html>
`
}
