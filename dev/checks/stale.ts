/** Fails where a generated file is not what its source makes: the OpenAPI document, and the charts of the figures. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawCharts } from '../../bench/side-by-side/charts.ts'
import { writeDocument } from '../../src/openapi/document.ts'

const docs = join(import.meta.dirname, '../../docs')
const read = (name: string) => readFileSync(join(docs, name), 'utf8')

const { peers } = JSON.parse(read('performance.json'))
const made = { 'openapi.json': writeDocument(''), ...drawCharts(peers.results, peers.machine) }
const stale = Object.entries(made).flatMap(([name, text]) => (text === read(name) ? [] : [`docs/${name}`]))
if (stale.length > 0) {
  process.stderr.write(`stale: ${stale.join(', ')}; \`npm run openapi\` writes the document\n`)
  process.exitCode = 1
}
