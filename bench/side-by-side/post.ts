/** One request of the kind that loads do not send, and what became of it. */
import { request } from 'node:http'
import { headers } from '../plant.ts'

/** A response, or the code of the error that came in its place. */
export type Outcome = { status: number; body: string } | { failure: string }

const timeoutMs = 30_000

/** Posts a body over a connection of its own. Never rejects; gives up after 30 s. */
export function post(url: string, body: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const sent = request(url, { method: 'POST', headers, agent: false, signal }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('error', fail)
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() })
      })
    })
    sent.on('error', fail)
    sent.end(body)
    function fail({ name, code }: NodeJS.ErrnoException) {
      resolve({ failure: code ?? name })
    }
  })
}
