/** A crowd of clients in a thread of its own: each sends its kind of request again as soon as it has the response. */
import { connect } from 'node:net'
import { Worker, workerData } from 'node:worker_threads'
import { plant } from '../plant.ts'
import { createClient, writeHead } from './open-loop.ts'

/** What the clients of a crowd send. */
export const kinds = {
  /** The table refuses each of these rows. */
  'bad rows': (id: number) => JSON.stringify({ id: 1_000_000 + id, name: 'refused' }),
  /** The id is taken. */
  '409s': () => JSON.stringify({ id: 1, ...plant }),
  'a flood without a token': (id: number) => JSON.stringify({ id, ...plant })
} as const
export type Kind = keyof typeof kinds

interface Crowd {
  url: string
  kind: Kind
  clients: number
}

/** Starts a crowd; the function that it returns ends it. */
export function startCrowd(crowd: Crowd): () => Promise<unknown> {
  const worker = new Worker(new URL(import.meta.url), { workerData: crowd })
  return () => worker.terminate()
}

function run({ url, kind, clients }: Crowd) {
  const { hostname, port } = new URL(url)
  const withToken = (length: number) => writeHead(url, length)
  const head = (length: number) =>
    kind === 'a flood without a token'
      ? withToken(length).replace(/authorization: .*\r\n/, '')
      : withToken(length)
  let sent = 0
  const open = () => {
    const send = () => {
      const body = kinds[kind](++sent)
      client.send(head(body.length) + body, 0)
    }
    const client = createClient(connect(Number(port), hostname, send), send, open)
  }
  for (let client = 0; client < clients; client++) open()
}

if (workerData?.kind) run(workerData)
