/** ops/rsyslog/plant-store.conf, as docs/monitoring.md installs it: the log of the replicas reaches another machine. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { docker, root } from '../../support/docker.ts'
import { createPlant } from '../../support/post.ts'
import { createAuthority, createCertificate } from '../../support/postgres/certificates.ts'
import { until } from '../../support/until.ts'
import { startStack } from './stack.ts'

const name = `plant-store-rsyslog-${randomBytes(4).toString('hex')}`
const page = await readFile(join(root, 'docs/monitoring.md'), 'utf8')
const [packages] = /(?<=apt-get install --yes )rsyslog .*/.exec(page) ?? []
const dockerfile = `FROM debian:forky-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ${packages}
CMD ["rsyslogd", "-n"]
`

/** A receiver of lines over TLS that can be slow, or away. */
async function startReceiver(t: Test) {
  const authority = createAuthority('authority')
  const sockets = new Set<TLSSocket>()
  const lines: Record<string, unknown>[] = []
  const server = createServer({ ...createCertificate('localhost', authority) }, (socket) => {
    sockets.add(socket)
    let rest = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const pieces = `${rest}${chunk}`.split('\n')
      rest = pieces.pop() as string
      for (const piece of pieces) lines.push(JSON.parse(piece))
    })
  })
  const listen = (port: number) => once(server.listen(port, '127.0.0.1'), 'listening')
  await listen(0)
  const { port } = server.address() as AddressInfo
  const leave = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  t.teardown(leave)
  return {
    authority: authority.cert,
    port,
    lines,
    stall: () => sockets.forEach((socket) => void socket.pause()),
    leave,
    comeBack: () => listen(port)
  }
}

/** Starts rsyslog with the configuration of the repository, as a machine that runs the engine has it. */
async function startRsyslog(t: Test, { authority, port }: { authority: string; port: number }) {
  const scratch = await mkdtemp(join(tmpdir(), 'plant-store-rsyslog-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const configuration = await readFile(join(root, 'ops/rsyslog/plant-store.conf'), 'utf8')
  const local = configuration.replaceAll('logs.example.com', 'localhost').replace('6514', `${port}`)
  await writeFile(join(scratch, 'Dockerfile'), dockerfile)
  await writeFile(join(scratch, 'plant-store.conf'), local)
  await writeFile(join(scratch, 'authority.pem'), authority)
  await docker(['build', '--network=host', '--quiet', `--tag=${name}`, scratch])
  t.teardown(async () => {
    await docker(['rm', '--force', '--volumes', name])
    await docker(['image', 'rm', '--force', name])
  })
  const logs = `${await docker(['info', '--format={{.DockerRootDir}}'])}/containers`
  const mounts = [
    `${logs}:/var/lib/docker/containers`,
    `${scratch}/plant-store.conf:/etc/rsyslog.d/plant-store.conf`,
    `${scratch}/authority.pem:/etc/ssl/certs/ca-certificates.crt`
  ]
  const volumes = mounts.map((mount) => `--volume=${mount}:ro`)
  await docker(['run', `--name=${name}`, '--detach', '--network=host', ...volumes, name])
}

t.test('the lines of all replicas arrive as JSON; nobody waits for a receiver that stalls', async (t) => {
  const receiver = await startReceiver(t)
  const stack = await startStack(t)
  await startRsyslog(t, receiver)
  const [url, token] = [await stack.url(), await stack.token()]
  let lastId = 0
  /** Creates plants, and returns the ids of the requests. */
  const create = async (count: number) => {
    const ids = Array.from({ length: count }, () => ++lastId)
    const send = async (id: number) => {
      const requestId = `night-${id}`
      const response = await createPlant(url, token, { id, name: 'Monstera' }, { 'x-request-id': requestId })
      return response.startsWith('200 ') ? requestId : response
    }
    return Promise.all(ids.map(send))
  }
  const isServed = (id: string) => id.startsWith('night-')
  /** Without those of stacks that other tests run. */
  const ours = () =>
    receiver.lines.filter(({ container }) => `${container}`.startsWith(`${stack.env.COMPOSE_PROJECT_NAME}-`))
  const ids = () => new Set(ours().map(({ requestId }) => requestId))
  const arrive = (expected: string[]) =>
    until(`${expected.length} lines arrive`, () => expected.every((id) => ids().has(id)))

  await arrive(await create(50))
  const line = ours().find(({ requestId }) => requestId === 'night-1')
  t.match(line, {
    host: /\w/,
    container: new RegExp(`^${stack.env.COMPOSE_PROJECT_NAME}-api-\\d+$`),
    level: 30,
    caller: 'dev',
    failure: 0,
    msg: 'created'
  })
  t.equal(new Set(ours().map(({ container }) => container)).size, 2, 'both replicas, and no other container')

  receiver.stall()
  const unread = await create(200)
  t.ok(unread.every(isServed), 'each got 200 while the receiver read nothing')
  receiver.leave()
  const away = await create(200)
  t.ok(away.every(isServed), 'each got 200 while the receiver was away')
  await receiver.comeBack()
  await arrive(away.slice(100))
})
