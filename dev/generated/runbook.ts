/**
 * ops/prometheus/web/runbook.html, for Prometheus to serve: the section on alerts of docs/monitoring.md, and the sections of
 * all pages to which it links, so that whoever is woken needs nothing else.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { slugOf, toHtml } from './html.ts'
import { writeAlerts } from './monitoring.ts'

const docs = join(import.meta.dirname, '../../docs')
const manual = 'monitoring.md'

/** A page, and the anchor of a section on it, if it is not the whole page. */
const split = (target: string, from: string): [string, string] => {
  const [page = '', anchor = ''] = target.split('#')
  return [page || from, anchor]
}

const idOf = (page: string, anchor: string) =>
  page === manual ? anchor : [page.replace('.md', ''), anchor].filter(Boolean).join('-')

/** The section of a page with its heading, to the next one of its level; the whole page without an anchor. */
function readSection(page: string, anchor: string): string {
  const lines = readFileSync(join(docs, page), 'utf8').split('\n')
  const levelOf = (line: string) => /^(#+) /.exec(line)?.[1]?.length ?? 9
  if (anchor === '') return lines.join('\n')
  const start = lines.findIndex((line) => levelOf(line) < 9 && slugOf(line.replace(/^#+ /, '')) === anchor)
  if (start < 0) throw new Error(`${page} has no section ${anchor}`)
  const length = lines.slice(start + 1).findIndex((line) => levelOf(line) <= levelOf(lines[start] as string))
  return lines.slice(start, length < 0 ? undefined : start + 1 + length).join('\n')
}

/** Returns the page: what to look at first, a section for each alert, and then what they link to. */
export function writeRunbook(): string {
  const alerts = readSection(manual, 'alerts').replace(
    /(?<=<!-- alerts: made .*-->).*(?=<!-- alerts: end)/s,
    `\n\n${writeAlerts()}\n\n`
  )
  const links = [...alerts.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target)
  const isOwn = (target: string) => target.startsWith('#plantstore')
  const others = links.filter((target) => /^(\w[\w-]*\.md)?(#|$)/.test(target) && !isOwn(target))
  const sections = new Map(others.map((target) => [idOf(...split(target, manual)), split(target, manual)]))
  const convert = (page: string, text: string, ownId: string) => {
    const resolve = (target: string) => {
      if (/^https?:/.test(target)) return target
      const id = idOf(...split(target, page))
      return sections.has(id) || id.startsWith('plantstore') ? `#${id}` : undefined
    }
    // The first heading is the section's own.
    let id: string | undefined = ownId
    return toHtml(text.replace(/^# /, '## '), resolve, (heading) => {
      const given = id ?? idOf(page, slugOf(heading))
      id = undefined
      return given
    })
  }
  const linked = [...sections].map(([id, [page, anchor]]) => convert(page, readSection(page, anchor), id))
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Plant Store: alerts</title>
<style>
body { font: 1rem/1.5 sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem; overflow-wrap: anywhere; }
pre, code { background: #eee; } pre { overflow: auto; padding: .5rem; }
td, th { border: 1px solid #ccc; padding: .2rem .4rem; text-align: left; vertical-align: top; } table { border-collapse: collapse; }
:target { background: #ffc; }
</style>
<!-- Made by \`npm run generate\` from docs/; do not edit. -->
${[convert(manual, alerts, 'alerts'), ...linked].join('\n')}
</html>
`
}
