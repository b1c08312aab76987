/** The page of /metrics: when it is made, and in which format. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { Registry } from '@prometheus-io/client'

const { PROMETHEUS_CONTENT_TYPE: text, OPENMETRICS_CONTENT_TYPE: openMetrics } = Registry

type MediaType = typeof text | typeof openMetrics

/** The shortest time between the starts of two pages. */
const shortestPauseMs = 100

interface Page {
  readonly type: MediaType
  readonly startedAt: number
  readonly bytes: Buffer
}

/** The methods of a registry that the page needs. */
export type Source = Pick<Registry, 'getMetricsAsArray' | 'metrics' | 'setContentType'>

/**
 * Returns a function that makes the page of a registry for a request's Accept. Its format is OpenMetrics if `hasExemplars`
 * and the client prefers that to the text format, which has no exemplars.
 */
export function createMetricsPage(registry: Source, hasExemplars: boolean) {
  const newest: Partial<Record<MediaType, Page>> = {}
  let startedAt = Number.NEGATIVE_INFINITY
  let previous: Promise<unknown> = Promise.resolve()

  async function make(type: MediaType): Promise<Page> {
    const waitMs = startedAt + shortestPauseMs - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    startedAt = performance.now()
    // To write OpenMetrics, the library takes this suffix off its own metrics, and never puts it back.
    for (const metric of registry.getMetricsAsArray() as unknown as { name: string; type: string }[])
      if (metric.type === 'counter' && !metric.name.endsWith('_total')) metric.name += '_total'
    registry.setContentType(type)
    const page = { type, startedAt, bytes: Buffer.from(await registry.metrics()) }
    newest[type] = page
    return page
  }

  /** Returns a page that was begun after it was asked for. Requests that come together share one. */
  async function read(type: MediaType, askedAt: number): Promise<Page> {
    // One page in each turn of the event loop at most, so that a flood of scrapes leaves time for creates.
    await nextTurn()
    const page = newest[type]
    return page !== undefined && page.startedAt >= askedAt ? page : make(type)
  }

  return (accept: string | undefined): Promise<Page> => {
    const weight = hasExemplars ? weightOf('application/openmetrics-text', accept) : 0
    const type = weight > 0 && weight >= weightOf('text/plain', accept) ? openMetrics : text
    const askedAt = performance.now()
    // One page after another: the format is a state of the registry.
    const page = previous.then(() => read(type, askedAt))
    previous = page.catch(() => {})
    return page
  }
}

/** Returns the weight, 0 to 1, of a media type in an Accept that names it (RFC 9110, section 12.4.2), or else 0. */
function weightOf(type: string, accept = ''): number {
  const weights = accept
    .toLowerCase()
    .split(',')
    .map((part) => part.split(';').map((text) => text.trim()))
    .filter(([name]) => name === type)
    .map(([, ...parameters]) => parameters.find((text) => text.startsWith('q='))?.slice(2) ?? '1')
  return Math.max(0, ...weights.map((weight) => Number(weight) || 0))
}
