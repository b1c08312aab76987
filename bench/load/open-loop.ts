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

/** Times from the scheduled moment of the request to the end of its response, in ms. */
export interface Latency {
  p50Ms: number
  p99Ms: number
  maxMs: number
}

/** What the load saw after the warm-up; what was created is counted by the time of its response, as a rate has to be. */
export interface OpenResult {
  offeredPerSecond: number
  /** Requests that were due and had found no idle connection until the end. */
  unsent: number
  /** The part of the time in which the generator itself was busy, 0 to 1. */
  busy: number
  createdPerSecond: number
  /** Of the whole run, the warm-up included. */
  created: number
  /** Responses with the number 503 and Retry-After. */
  refusedPerSecond: number
  /** Responses of any other kind, failed connections, and requests without a response. */
  errors: number
  /** The most requests that were under way at a time, each on a connection of its own. */
  underWay: number
  /** How late requests left: the generator's own fault, which the latencies include. */
  late: Latency
  createdLatency: Latency
  refusedLatency: Latency
}

const tickMs = 1
/** The server's queue of connections that it has not accepted yet is 511 long. */
const connectionsAtOnce = 100

type Outcome = 'created' | 'refused' | 'other'

/** Posts plants to `url`. A connection that the server closes is replaced. */
export async function loadOpenLoop(url: string, load: OpenLoad): Promise<OpenResult> {
  const { hostname, port } = new URL(url)
  const head = writeHead(url, makeBody().length)
  const idle: Client[] = []
  const open = new Set<Client>()
  const latencies = { created: createHistogram(), refused: createHistogram(), late: createHistogram() }
  const counted = { created: 0, refused: 0 }
  let created = 0
  let errors = 0
  let mostUnderWay = 0
  let offered = 0
  let underWay = 0

  function answered(client: Client, outcome: Outcome, isLast: boolean) {
    const now = performance.now()
    underWay--
    if (outcome === 'other') errors++
    else {
      if (outcome === 'created') created++
      if (now >= countFrom && now < end) counted[outcome]++
      if (client.dueAt >= countFrom) record(latencies[outcome], now - client.dueAt)
    }
    if (isLast) client.socket.end()
    else idle.push(client)
  }

  function openClient(): Client {
    const client = createClient(connect(Number(port), hostname), answered, () => {
      open.delete(client)
      if (client.isBusy) answered(client, 'other', true)
    })
    open.add(client)
    return client
  }

  // In turn: the server closes a connection that stays silent, perhaps just when it is used at last.
  function take(): Client | undefined {
    for (let client = idle.shift(); client; client = idle.shift()) if (open.has(client)) return client
    return open.size < load.connections ? openClient() : undefined
  }

  while (open.size < load.connections) {
    const opened = Array.from(
      { length: Math.min(connectionsAtOnce, load.connections - open.size) },
      openClient
    )
    await Promise.all(opened.map(({ socket }) => once(socket, 'connect')))
    idle.push(...opened)
  }
  const began = performance.now()
  const countFrom = began + load.warmUpSeconds * 1000
  const end = countFrom + load.seconds * 1000

  const utilization = performance.eventLoopUtilization()
  let sent = 0
  for (; performance.now() < end; await sleep(tickMs)) {
    const due = Math.floor(((Math.min(performance.now(), end) - began) * load.perSecond) / 1000)
    for (; sent < due; sent++) {
      const dueAt = began + ((sent + 1) * 1000) / load.perSecond
      const client = take()
      if (client === undefined) break
      mostUnderWay = Math.max(mostUnderWay, ++underWay)
      client.send(head + makeBody(), dueAt)
      if (dueAt < countFrom) continue
      offered++
      record(latencies.late, performance.now() - dueAt)
    }
  }
  const busy = performance.eventLoopUtilization(utilization).utilization
  const unsent = Math.round(((end - began) * load.perSecond) / 1000) - sent
  const patience = performance.now() + load.patienceSeconds * 1000
  while (underWay > 0 && performance.now() < patience) await sleep(tickMs)
  const unanswered = underWay
  for (const { socket } of open) socket.destroy()
  return {
    offeredPerSecond: offered / load.seconds,
    unsent,
    busy,
    createdPerSecond: counted.created / load.seconds,
    created,
    refusedPerSecond: counted.refused / load.seconds,
    errors: errors + unanswered,
    underWay: mostUnderWay,
    late: summarize(latencies.late),
    createdLatency: summarize(latencies.created),
    refusedLatency: summarize(latencies.refused)
  }
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
  onResponse: (client: Client, outcome: Outcome, isLast: boolean) => void,
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
    onResponse(client, judge(received), received.includes('\r\nconnection: close'))
  })
  socket.on('error', () => {})
  socket.on('close', onClose)
  return client
}

function judge(answer: string): Outcome {
  if (answer.startsWith('HTTP/1.1 200 ')) return 'created'
  return answer.includes('{"error":503,') && answer.includes('\r\nretry-after: ') ? 'refused' : 'other'
}

const record = (histogram: { record(value: number): void }, ms: number) =>
  histogram.record(Math.max(1, Math.round(ms * 1000)))

function summarize(histogram: { count: number; max: number; percentile(part: number): number }): Latency {
  if (histogram.count === 0) return { p50Ms: Number.NaN, p99Ms: Number.NaN, maxMs: Number.NaN }
  const [p50Ms, p99Ms] = [50, 99].map((part) => histogram.percentile(part) / 1e3) as [number, number]
  return { p50Ms, p99Ms, maxMs: histogram.max / 1e3 }
}
