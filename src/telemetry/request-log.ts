/** One line of the log when a response has ended, and how many lines requests without a caller may have. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Line } from '../log-fields.ts'
import { createInfoLine } from '../logger.ts'

/** The levels of lines about requests, the most severe first. */
const levels = ['error', 'warn', 'info', 'debug'] as const

type Level = (typeof levels)[number]

/** How many lines of each level come back in a second, and how many there are at most: a second has 120 of them at most. */
export const linesPerSecond = 20
export const linesAtOnce = 100

/**
 * The lines of requests without a caller: anybody can send them, and each line has more bytes than its request. A bucket
 * for each level, so that cheap refusals hide no warning. Times are in ms.
 */
export class LineBudget {
  readonly #buckets: Record<Level, { left: number; at: number; unlogged: number }>

  constructor(now: number) {
    const bucket = () => ({ left: linesAtOnce, at: now, unlogged: 0 })
    this.#buckets = { error: bucket(), warn: bucket(), info: bucket(), debug: bucket() }
  }

  /** Takes a line of a level that is logged; returns false, and counts the request, if none is left. */
  take(level: Level, now: number): boolean {
    const bucket = this.#buckets[level]
    bucket.left = Math.min(linesAtOnce, bucket.left + ((now - bucket.at) / 1_000) * linesPerSecond)
    bucket.at = now
    if (bucket.left < 1) {
      bucket.unlogged++
      return false
    }
    bucket.left--
    return true
  }

  /** Returns how many requests had no line since the last call, and their most severe level; undefined if all had one. */
  takeUnlogged(): { level: Level; requests: number } | undefined {
    const level = levels.find((name) => this.#buckets[name].unlogged > 0)
    if (level === undefined) return undefined
    let requests = 0
    for (const bucket of Object.values(this.#buckets)) {
      requests += bucket.unlogged
      bucket.unlogged = 0
    }
    return { level, requests }
  }
}

/** Returns the fields of a success's line as JSON. None of them can hold what JSON would have to escape. */
function writeFields(reply: FastifyReply): string {
  const { requestId, traceId, method, route, caller, batchRows, durationMs, client, forwardedFor } =
    describe(reply)
  return (
    `,"requestId":"${requestId}"${member('traceId', traceId)},"method":"${method}","route":"${route}"` +
    `${member('caller', caller)},"failure":0${batchRows ? `,"batchRows":${batchRows}` : ''}` +
    `,"durationMs":${durationMs}${member('client', client)}${member('forwardedFor', forwardedFor)}`
  )
}

const member = (name: string, text: string | undefined) => (text === undefined ? '' : `,"${name}":"${text}"`)

function describe({ request, elapsedTime }: FastifyReply) {
  return {
    requestId: request.id,
    traceId: request.traceId,
    method: request.method,
    route: routeOf(request),
    caller: request.caller || undefined,
    failure: request.failure?.error ?? 0,
    errorName: request.failure?.name,
    batchRows: request.failure?.rows ?? request.batchRows,
    durationMs: Math.round(elapsedTime * 1000) / 1000,
    /** Undefined once its socket is destroyed. */
    client: request.ip as string | undefined,
    forwardedFor: request.forwardedFor
  }
}

/** Returns the path of a request's route, or undefined without one. Reading an operation's costs less. */
export const routeOf = ({ operation, routeOptions }: FastifyRequest) => (operation ?? routeOptions).url

/** Returns a cause that PostgreSQL has reported: the operator must find the rule. Others can quote what a client sent. */
const reportOf = (cause: unknown) => (cause instanceof Error && 'severity' in cause ? cause : undefined)

/** How long requests without a line are counted before a line tells their number, in ms. */
const untoldMs = 1_000

/**
 * Returns three functions that log: a response that was sent or given up; a line without a request, within the budget of
 * those without a caller; and how many requests had no line since that was logged last.
 */
export function createRequestLog(logger: Logger) {
  const writeInfoLine = createInfoLine(logger)
  const budget = new LineBudget(performance.now())
  let timer: NodeJS.Timeout | undefined

  function write(level: Level, line: Line, message: string) {
    if (!logger.isLevelEnabled(level)) return
    if (line.caller !== undefined || budget.take(level, performance.now())) logger[level](line, message)
    else timer ??= setTimeout(logUnlogged, untoldMs).unref()
  }

  function logUnlogged() {
    clearTimeout(timer)
    timer = undefined
    const { level, requests } = budget.takeUnlogged() ?? {}
    if (level) logger[level]({ requests }, 'requests without a caller were not logged')
  }

  function logReply(reply: FastifyReply, isSent: boolean) {
    const { failure, operation } = reply.request
    if (isSent && !failure && operation) return writeInfoLine(writeFields(reply), operation.success.logged)
    const line = describe(reply)
    // The line names no failure, since the client got none, and its plant may be stored.
    if (!isSent)
      write(
        'info',
        { ...line, failure: undefined, errorName: undefined },
        'the client left before its response'
      )
    else if (failure?.error === 500) write('error', { ...line, err: failure }, failure.message)
    else if (failure?.error === 503) write('warn', { ...line, cause: failure.cause }, failure.message)
    else if (failure) write('info', { ...line, cause: reportOf(failure.cause) }, failure.message)
    // Probes come every second, and matter only when they fail.
    else write('debug', line, 'responded')
  }

  return { write, logUnlogged, logReply }
}
