/** The byte cases of the contract, through the balancers as they are shipped: each response keeps the interface's shape. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { tables } from '../../promises/byte-cases.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { failureNumbers } from '../../support/responses.ts'
import { startService } from '../../support/service.ts'
import { connectTo, type Part, parseResponses, type RawResponse } from '../../support/sockets.ts'
import { until } from '../../support/until.ts'
import { balancers, isMissing } from './balancers.ts'

/** Longer than a response takes. */
const silenceMs = 3_000

const isInShape = ({ status, headers, body }: RawResponse) => {
  if (status === 100) return body === ''
  const { error, message, name } = JSON.parse(body)
  return status === 200
    ? typeof name === 'string'
    : status === 400 &&
        failureNumbers[headers['error-name'] ?? ''] === error &&
        typeof message === 'string'
}
/** Sends the parts, and returns what has come when the balancer closes, or is silent for as long as nothing takes. */
async function exchange(url: string, parts: Part[], expected: number) {
  const socket = connectTo(url, { allowHalfOpen: true })
  const chunks: Buffer[] = []
  socket.on('error', () => {}).on('data', (chunk) => chunks.push(chunk))
  const all = () => Buffer.concat(chunks)
  const closed = new Promise((resolve) => socket.once('end', resolve).once('close', resolve))
  const come = async (isThere: (text: string) => boolean) => {
    for (let ms = 0; ms < silenceMs && !isThere(all().toString('latin1')); ms += 10)
      if (await Promise.race([closed.then(() => true), sleep(10)])) return
  }
  for (const part of parts) {
    if (part instanceof RegExp) await come((text) => part.test(text))
    else socket.write(part as string, 'latin1')
  }
  await come((text) => text.split(/(?<!\w)HTTP\/1\.1 /).length > expected && text.endsWith('}'))
  socket.destroy()
  return all()
}

for (const [title, { command, start }] of Object.entries(balancers))
  t.test(title, { skip: isMissing(command), jobs: 8 }, async (t) => {
    const service = await startService(t)
    const { url } = await start(t, [Number(new URL(service.url).port), await freePort()])
    await until('it serves', async () => (await fetch(`${url}/livez`)).ok)
    for (const [subject, cases] of tables.filter(([, , options]) => !options?.isHurried))
      for (const [title, parts, ...expected] of cases)
        t.test(`${subject}: ${title.slice(0, 80)}`, async (t) => {
          // A response of HTTP/0.9 has no header.
          if (command === 'nginx' && /^(no|PRI without a) version/.test(title)) return
          const bytes = await exchange(url, parts, expected.length)
          const responses = parseResponses(bytes, { isHead: title.startsWith('HEAD') })
          t.ok(
            title.startsWith('HEAD') || responses.every(isInShape),
            bytes.toString('latin1').slice(0, 1_000)
          )
          // HAProxy has no upgrade, nginx wants a Host, and both add fields.
          if (
            expected[0]?.status === 200 &&
            !/upgrade|"host":""|without Host|^96 fields/.test(title)
          )
            t.equal(responses[0]?.status, 200)
        })
  })
