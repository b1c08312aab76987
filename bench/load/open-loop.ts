/** Open-loop load: requests are sent on a schedule, without waiting for earlier ones. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { headers, makeBody } from '../plant.ts'

/** What to load a server with. */
export interface OpenLoad {
  /** Requests that leave in a second, evenly spread. */
  perSecond: number
  /** How long they leave, in seconds; the first of them are not counted. */
  warmUpSeconds: number
  seconds: number
  /** Opened before the first request leaves; a request that finds none idle waits for one, and its time runs. */
  connections: number
  /** How long to wait for responses at the end, in seconds. */
  patienceSeconds: number
}

/** What the load saw: times from the moment when a create was due to the end of its response, in ms. */
export interface OpenResult {
  p50Ms: number
  p99Ms: number
  maxMs: number
  /** Responses other than 200, failed connections, and requests without a response. */
  failed: number
}

const tickMs = 1

/** Posts plants to `url`. A connection that the server closes is replaced. */
export async function loadOpenLoop(url: string, load: OpenLoad): Promise<OpenResult> {
  const { hostname, port } = new URL(url)
  const head = writeHead(url, makeBody().length)
  const idle: Client[] = []
  const open = new Set<Client>()
  const latencyUs = createHistogram()
  let failed = 0
  let underWay = 0

  function answered(client: Client, isCreated: boolean, isLast: boolean) {
    underWay--
    if (!isCreated) failed++
    else if (client.dueAt >= countFrom)
      latencyUs.record(Math.max(1, Math.round((performance.now() - client.dueAt) * 1e3)))
    if (isLast) client.socket.end()
    else idle.push(client)
  }

  function openClient(): Client {
    const client = createClient(connect(Number(port), hostname), answered, () => {
      open.delete(client)
      if (client.isBusy) answered(client, false, true)
    })
    open.add(client)
    return client
  }

  // In turn: the server closes a connection that stays silent, perhaps just when it is used at last.
  function take(): Client | undefined {
    for (let client = idle.shift(); client; client = idle.shift()) if (open.has(client)) return client
    return open.size < load.connections ? openClient() : undefined
  }

  for (let count = 0; count < load.connections; count++) idle.push(openClient())
  await Promise.all(idle.map(({ socket }) => once(socket, 'connect')))
  const began = performance.now()
  const countFrom = began + load.warmUpSeconds * 1000
  const end = countFrom + load.seconds * 1000
  let sent = 0
  for (; performance.now() < end; await sleep(tickMs)) {
    const due = Math.floor(((Math.min(performance.now(), end) - began) * load.perSecond) / 1000)
    for (; sent < due; sent++) {
      const client = take()
      if (client === undefined) break
      underWay++
      client.send(head + makeBody(), began + ((sent + 1) * 1000) / load.perSecond)
    }
  }
  const patience = performance.now() + load.patienceSeconds * 1000
  while (underWay > 0 && performance.now() < patience) await sleep(tickMs)
  const unanswered = underWay
  for (const { socket } of open) socket.destroy()
  const [p50Ms, p99Ms] = [50, 99].map((part) => latencyUs.percentile(part) / 1e3) as [number, number]
  return { p50Ms, p99Ms, maxMs: latencyUs.max / 1e3, failed: failed + unanswered }
}

interface Client {
  socket: Socket
  isBusy: boolean
  dueAt: number
  send(request: string, dueAt: number): void
}

/** Writes the header of a request with a body of so many bytes. */
export function writeHead(url: string, bodyLength: number): string {
  const { pathname, host } = new URL(url)
  const fields = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${pathname} HTTP/1.1\r\n${fields.join('')}content-length: ${bodyLength}\r\n\r\n`
}

/** Makes a client of a connection, with one request at a time. */
export function createClient(
  socket: Socket,
  onResponse: (client: Client, isCreated: boolean, isLast: boolean) => void,
  onClose: () => void
): Client {
  let received = ''
  socket.setNoDelay(true)
  socket.setEncoding('latin1')
  const client: Client = {
    socket,
    isBusy: false,
    dueAt: 0,
    send(request, dueAt) {
      client.isBusy = true
      client.dueAt = dueAt
      received = ''
      socket.write(request)
    }
  }
  socket.on('data', (text: string) => {
    received += text
    const bodyAt = received.indexOf('\r\n\r\n') + 4
    const [, length = ''] = /\r\ncontent-length: (\d+)/i.exec(received) ?? []
    if (bodyAt === 3 || received.length < bodyAt + Number(length)) return
    client.isBusy = false
    onResponse(client, received.startsWith('HTTP/1.1 200 '), received.includes('\r\nconnection: close'))
  })
  socket.on('error', () => {})
  socket.on('close', onClose)
  return client
}
