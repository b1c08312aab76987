/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import { Counter } from '@prometheus-io/client'
import { type Logger, pino } from 'pino'
import { prefix } from './metrics.ts'

/** Of PostgreSQL's reports. Not the message, the detail and the hint, which can quote a row. */
const namesInReports = 'name code severity schema table column dataType constraint routine'.split(
  ' '
)
/** The function that has raised an error, in the first line of its context. */
const raisedBy = /^PL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\(/
/** The function whose statement has failed, in the last line; a statement before it may quote any text. */
const calledBy =
  /\nPL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\([^\n]*\) line \d+ at [^\n]*$/

/** Describes an error for the log: its type, these fields, or those of a report, and its causes. */
function describeError(error: unknown, names: string[]): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const described: Record<string, unknown> = { type: error.constructor.name }
  for (const name of 'severity' in error ? namesInReports : names) {
    const value = Reflect.get(error, name)
    // A code that is a number says nothing, such as the 23 of an AbortSignal's TimeoutError.
    if (typeof value === 'string') described[name] = value
  }
  const where = String(Reflect.get(error, 'where'))
  described.function = (raisedBy.exec(where) ?? calledBy.exec(where))?.[1]
  if (error.cause !== undefined) described.cause = describeError(error.cause, names)
  return described
}

/** The logger of the service. */
export interface OwnLogger extends Logger {
  /** Writes a line of JSON, which has its end, without what the logger adds to its own lines. */
  readonly writeLine: (line: string) => void
}

/** How long the exit waits for a reader that has no room, in ms. */
const exitWaitMs = 1_000

/**
 * Opens standard output, and returns what writes a line. A write never waits: what is not taken is kept, up to 1 MiB, and tried
 * again. Asynchronous writes of sonic-boom could not be finished at the exit: its flushSync tries a full disk for ever.
 */
function openOutput(): OwnLogger['writeLine'] {
  /** Until when a reader that has no room is waited for: only the exit waits. */
  let waitsUntil = 0
  const stream = pino.destination({
    dest: 1,
    sync: true,
    // A system call for each line would cost more than the line itself.
    minLength: 16_000,
    maxLength: 1_048_576,
    periodicFlush: 250,
    contentMode: 'buffer', // costs a third of text
    retryEAGAIN: () => performance.now() < waitsUntil
  })
  // The handler of pino would stop the log for ever once its reader has gone.
  stream.removeAllListeners('error').on('error', () => {})
  const lostLines = new Counter({
    name: `${prefix}log_lines_lost_total`,
    help: 'Lines of the log that were lost: standard output could not be written'
  })
  stream.on('drop', () => lostLines.inc())
  // Node makes a pipe or a socket non-blocking when it opens its stream, which is not used otherwise: at the exit, it does not
  // say how much the reader has taken. A terminal blocks.
  void process.stdout
  // At every exit, however it comes about.
  process.once('exit', () => {
    waitsUntil = performance.now() + exitWaitMs
    stream.end()
  })
  // The stream's types do not know the content mode.
  return (line) => void stream.write(Buffer.from(line) as unknown as string)
}

/** The process has one standard output, which all loggers share: two streams could write into each other's lines. */
let writeLine: OwnLogger['writeLine'] | undefined

const serializers = {
  err: (error: unknown) => describeError(error, ['name', 'code', 'message', 'stack']),
  /** Without the stack: in an outage, thousands of lines a second have a cause. */
  cause: (error: unknown) => describeError(error, ['name', 'code', 'message'])
}

/** Makes a logger at a level of pino's. The last lines are written after 250 ms, or at the exit. */
export function createLogger(level: string): OwnLogger {
  writeLine ??= openOutput()
  const logger = pino({ level, base: null, serializers }, { write: writeLine })
  return Object.assign(logger, { writeLine })
}
