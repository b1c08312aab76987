/** Floods of connections that mean harm, through a balancer of the stack. */
import type { Test } from 'tap'
import { docker, inspect } from '../../support/docker.ts'
import { until } from '../../support/until.ts'
import type { Stack } from './stack.ts'

/** A connection of HTTP/2 by prior knowledge with 100 creates whose bodies do not end (RFC 9113). */
function manyStreams(): Buffer {
  const frame = (type: number, flags: number, stream: number, payload: Buffer) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.writeUIntBE(type * 256 + flags, 3, 2)
    head.writeUInt32BE(stream, 5)
    return Buffer.concat([head, payload])
  }
  const text = (value: string) => `${String.fromCharCode(value.length)}${value}`
  // RFC 7541: the indexed fields `:method: POST` and `:scheme: http`, and literal ones.
  const fields = [':path', '/plants', ':authority', 'test', 'content-length', '100000']
  const literals = fields.map((field, index) => `${index % 2 === 0 ? '\0' : ''}${text(field)}`).join('')
  const header = Buffer.from(`\x83\x86${literals}`, 'latin1')
  const streams = Array.from({ length: 100 }, (_, index) => [
    frame(1, 4, 1 + 2 * index, header),
    frame(0, 0, 1 + 2 * index, Buffer.alloc(500))
  ])
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  return Buffer.concat([Buffer.from(preface), frame(4, 0, 0, Buffer.alloc(0)), ...streams.flat()])
}

/** A program of the image: it opens connections, each of which sends these bytes and then nothing. */
const flooder = `
  const [module, host, port, count, base64] = process.argv.slice(1)
  const bytes = Buffer.from(base64, 'base64')
  let sent = 0
  for (let index = 0; index < count; index++) {
    const socket = require(module).connect({ host, port, rejectUnauthorized: false })
    socket.on('error', () => {}).write(bytes, () => ++sent < count || console.log('sent'))
  }`

/** Connections, and what each sends: HTTP/2, and a large header on as many connections as a balancer takes. */
const floods: [number, Buffer][] = [
  [500, manyStreams()],
  [4_000, Buffer.from(`POST /plants HTTP/1.1\r\nhost: test\r\nx: ${'x'.repeat(15_000)}`)]
]

/** Floods a balancer of a stack without a token; calls `serve` amid each flood, and proves that the balancer has lived on. */
export async function assertOutlived(
  t: Test,
  stack: Stack,
  balancer: [string, number, 'net' | 'tls'],
  serve: () => Promise<void>
) {
  const [service, port, module] = balancer
  const state = async () => {
    const [{ Id: id, State: state }] = await inspect(...(await stack.running(service)))
    return [id, state.StartedAt]
  }
  const before = await state()
  const { COMPOSE_PROJECT_NAME: project } = stack.env
  const name = `${project}-flooder`
  for (const [count, bytes] of floods) {
    const flags = ['--detach', `--name=${name}`, `--network=${project}_front`]
    const args = [module, service, `${port}`, `${count}`, bytes.toString('base64')]
    await docker(['run', ...flags, stack.image, 'node', '--eval', flooder, ...args])
    try {
      await until('all is sent', async () => (await docker(['logs', name])) === 'sent')
      // Another balancer would have another port, at which nobody asks.
      if (!t.strictSame(await state(), before)) return
      await serve()
    } finally {
      await docker(['rm', '--force', name])
    }
  }
  t.strictSame(await state(), before)
}
