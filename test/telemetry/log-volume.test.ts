/** How much a create logs, as docs/running.md counts it, and how long docker-compose.yml keeps it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { parse } from 'yaml'
import { bytesPerLogLine, logCompression, readLogLimits } from '../../dev/generated/sizing.ts'
import { headers, startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'

const token = 'dev-secret-0123456789'
const count = 500

/** Returns a line as Docker's driver json-file writes it, with a tag. */
const wrap = (log: string) =>
  `${JSON.stringify({ log, stream: 'stdout', attrs: { tag: 'plant-store-api-1' }, time: '2026-11-26T05:49:43.789836592Z' })}\n`

t.test("a create's line has the documented size, and compresses as well as documented", async (t) => {
  const service = await startService(t, { AUTH_TOKENS: `dev:${token}` })
  const fields = { ...headers, authorization: `Bearer ${token}`, 'x-forwarded-for': '198.51.100.17' }
  for (let id = 0; id < count; id++) await service.post({ id, name: 'n' }, { headers: fields })
  const isCreated = (line: string) => line.includes('"msg":"created"')
  const read = () =>
    service
      .logText()
      .split(/(?<=\n)/)
      .filter(isCreated)
  const lines = await until('all are logged', read, (found) => found.length === count)
  const file = lines.map(wrap).join('')
  const bytes = file.length / count
  t.ok(Math.abs(bytes / bytesPerLogLine - 1) < 0.02, `${bytes} bytes`)
  const compression = file.length / gzipSync(file).length
  t.ok(compression > logCompression, `${compression} times smaller`)
})

t.test('the stack keeps a day of log at 100 creates/s, of any one replica, in at most 40 files', (t) => {
  const { services } = parse(readFileSync(join(import.meta.dirname, '../../docker-compose.yml'), 'utf8'))
  t.match(services.api.logging, {
    driver: 'json-file',
    options: { 'max-size': /^\d+m$/, 'max-file': '40', compress: 'true', tag: '{{.Name}}' }
  })
  // The newest file may just have begun.
  t.ok(readLogLimits().rotated >= 100 * 86_400 * bytesPerLogLine)
  t.end()
})
