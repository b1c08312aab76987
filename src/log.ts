/**
 * The log: JSON lines, written by pino. It quotes nothing of a body, and nothing that
 * PostgreSQL quotes. Of a header it has only the method, ids and addresses, in a checked form
 * (http/head.ts).
 */
import { Counter } from '@prometheus-io/client'
import { type Logger, pino } from 'pino'
import { prefix } from './metrics.ts'

/**
 * What the log has of an error that PostgreSQL reports. The message, the detail and the hint are
 * left out, because they can quote a row.
 */
const reported = 'name code severity schema table column dataType constraint routine'.split(' ')
/** Finds the function that raised an error. It is in the first line of the error's context. */
const raisedBy = /^PL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\(/
/**
 * Finds the function whose statement failed. It is in the last line of the context; a statement
 * before that line may quote any text.
 */
const calledBy =
  /\nPL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\([^\n]*\) line \d+ at [^\n]*$/

/**
 * Describes an error for the log: its type, its causes, and the properties `names`. For an error
 * that PostgreSQL reports, the properties are `reported` instead.
 */
function describeError(error: unknown, names: string[]): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const described: Record<string, unknown> = { type: error.constructor.name }
  for (const name of 'severity' in error ? reported : names) {
    const value = Reflect.get(error, name)
    // A code that is a number explains nothing, such as the 23 of an AbortSignal's TimeoutError.
    if (typeof value === 'string') described[name] = value
  }
  const where = String(Reflect.get(error, 'where'))
  described.function = (raisedBy.exec(where) ?? calledBy.exec(where))?.[1]
  if (error.cause !== undefined) described.cause = describeError(error.cause, names)
  return described
}

/** The logger of the service. */
export interface OwnLogger extends Logger {
  /** Writes a line of JSON as it is. The line must have its line end. */
  readonly writeLine: (line: string) => void
}

/** How long the exit of the process waits for a reader of the log that has no room, in ms. */
const exitWaitMs = 1_000

/**
 * Opens standard output. Returns the function that writes a line. A write never waits: what the
 * reader has no room for is kept, up to 1 MiB, and written later. Do not use sonic-boom's
 * asynchronous mode: its flushSync would try to write to a full disk for ever, so that the process
 * could not exit.
 */
function openOutput(): OwnLogger['writeLine'] {
  /** The time until which a write may wait for a reader that has no room. Only the exit sets it. */
  let waitsUntil = 0
  const stream = pino.destination({
    dest: 1,
    sync: true,
    // A system call for each line would cost more than the line itself.
    minLength: 16_000,
    maxLength: 1_048_576,
    periodicFlush: 250,
    // To write a buffer costs a third of what a text costs.
    contentMode: 'buffer',
    retryEAGAIN: () => performance.now() < waitsUntil
  })
  // With pino's own handler, the log would stop for ever when its reader goes away.
  stream.removeAllListeners('error').on('error', () => {})
  const lostLines = new Counter({
    name: `${prefix}log_lines_lost_total`,
    help: 'Lines of the log that were lost: standard output could not be written'
  })
  stream.on('drop', () => lostLines.inc())
  // Opening Node's stream makes a pipe or a socket non-blocking. The stream is not used otherwise,
  // because at the exit it does not say how much the reader has taken. A terminal stays blocking.
  void process.stdout
  // This runs at every exit, whatever the reason is.
  process.once('exit', () => {
    waitsUntil = performance.now() + exitWaitMs
    stream.end()
  })
  // The types of the stream do not know the content mode.
  return (line) => void stream.write(Buffer.from(line) as unknown as string)
}

/**
 * The function that writes to standard output. All loggers of the process share it: two streams
 * could write into the middle of each other's lines.
 */
let writeLine: OwnLogger['writeLine'] | undefined

const serializers = {
  err: (error: unknown) => describeError(error, ['name', 'code', 'message', 'stack']),
  /** This leaves out the stack. In an outage, thousands of lines a second have a cause. */
  cause: (error: unknown) => describeError(error, ['name', 'code', 'message'])
}

/** Makes a logger with one of pino's levels. A line is written within 250 ms, or at the exit. */
export function createLogger(level: string): OwnLogger {
  writeLine ??= openOutput()
  const logger = pino({ level, base: null, serializers }, { write: writeLine })
  return Object.assign(logger, { writeLine })
}
