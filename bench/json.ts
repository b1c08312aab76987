/** What reading a body costs compared with JSON.parse alone; fails where one costs 5 ms more. */

import { cases } from '../harness/random/json-cases.ts'
import { createJsonReader } from '../src/body/json.ts'
import { describeMachine } from './machine.ts'
import { median } from './measure.ts'
import { formatNumber, formatTable } from './report.ts'

const rounds = 41
const limitMs = 5

type Read = (body: Buffer) => unknown
const parseWithExactId = createJsonReader(['id'])
const parseAlone: Read = (body) => JSON.parse(body.toString())

/** Returns the ms of one reading; a small body is read many times for it. */
function time(read: Read, body: Buffer): number {
  const count = Math.ceil(1_048_576 / body.length)
  const started = performance.now()
  for (let done = 0; done < count; done++) read(body)
  return (performance.now() - started) / count
}

/** Returns medians: both times in ms, and the ratio of two that stand side by side, so that one load meets both. */
function compare(body: Buffer) {
  const times = Array.from({ length: rounds }, () => {
    const alone = time(parseAlone, body)
    const exact = time(parseWithExactId, body)
    return { alone, exact, ratio: exact / alone }
  })
  const middle = (figure: 'alone' | 'exact' | 'ratio') => median(times.map((round) => round[figure]))
  return { alone: middle('alone'), exact: middle('exact'), ratio: middle('ratio') }
}

// V8 compiles what is run often: a service that has been up for a while is measured, not its first megabytes.
for (const body of Object.values(cases)) time(parseWithExactId, body)
const results = Object.entries(cases).map(([name, body]) => ({ name, bytes: body.length, ...compare(body) }))
const rows = results.map(({ name, bytes, alone, exact, ratio }) => {
  const digits = bytes < 1_000 ? 5 : 2
  return [
    name,
    formatNumber(bytes, 0),
    formatNumber(alone, digits),
    formatNumber(exact, digits),
    formatNumber(ratio, 2)
  ]
})
const table = formatTable([
  ['case', 'bytes', 'JSON.parse, ms', 'with the exact id, ms', 'times JSON.parse'],
  ...rows
])
const beyond = results.filter(({ alone, exact }) => exact - alone > limitMs).map(({ name }) => name)
process.stdout.write(`${describeMachine([])}. Medians of ${rounds} rounds.\n\n${table}\n\n`)
process.stdout.write(
  beyond.length === 0 ? `none costs ${limitMs} ms more\n` : `${limitMs} ms more: ${beyond.join('; ')}\n`
)
process.exitCode = beyond.length === 0 ? 0 : 1
