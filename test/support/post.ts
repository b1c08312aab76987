/** One POST and its outcome; and one create. */
import { type Agent, type OutgoingHttpHeaders, request } from 'node:http'

/** A response, or the code or message of the error that occurred instead. */
export type Outcome = { status: number; body: string } | { failure: string }

interface Options {
  headers: OutgoingHttpHeaders
  /** Holds the connections; without one the request has a connection of its own. */
  agent?: Agent
  /** How long the connection may be silent, in ms. */
  timeoutMs: number
}

/** Posts a body. Never rejects. */
export function post(url: string, body: string, { headers, agent, timeoutMs }: Options): Promise<Outcome> {
  return new Promise((resolve) => {
    const fail = ({ code, message }: NodeJS.ErrnoException) => resolve({ failure: code ?? message })
    const options = { method: 'POST', headers, agent: agent ?? false, timeout: timeoutMs }
    const sent = request(url, options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => (text += chunk))
      response.on('error', fail)
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
    })
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${timeoutMs} ms`)))
    sent.on('error', fail)
    sent.end(body)
  })
}

/**
 * Creates a plant at an origin, and returns its response, such as `200 {"name":"Fern"}`. Further header fields may be given.
 * Rejects where there is no response.
 */
export async function createPlant(
  origin: string,
  token: string,
  plant: { id: number; name: string },
  fields: Record<string, string> = {}
): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...fields }
  const response = await fetch(`${origin}/plants`, { method: 'POST', headers, body: JSON.stringify(plant) })
  return `${response.status} ${await response.text()}`
}
