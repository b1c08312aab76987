/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import { type DestinationStream, pino } from 'pino'

const maximumCauses = 5
const maximumLength = 10_000

/** The fields of an error that are logged. Of PostgreSQL's errors not the message, which can quote a row. */
const kept = ['name', 'code', 'message', 'stack']
const keptOfReports = 'name code severity schema table column dataType constraint routine'.split(' ')
/** The function that has raised an error, in the first line of its context. Further ones can quote statements. */
const raisedBy = /^PL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\(/

/** Describes an error for the log: its type, the fields above, with or without the stack, and its causes. Never throws. */
function describeError(error: unknown, hasStack: boolean, depth = 0): object {
  try {
    if (!(error instanceof Error)) return { type: typeof error }
    const described: Record<string, unknown> = { type: error.constructor.name }
    for (const name of 'severity' in error ? keptOfReports : kept) {
      const value = name === 'stack' && !hasStack ? undefined : Reflect.get(error, name)
      // Other values may be large or cyclic, or throw when they are read.
      if (typeof value === 'string') described[name] = value.slice(0, maximumLength)
      else if (typeof value === 'number') described[name] = value
    }
    const raiser = raisedBy.exec(String(Reflect.get(error, 'where')))?.[1]
    if (raiser !== undefined) described.function = raiser
    if (error.cause !== undefined && depth < maximumCauses)
      described.cause = describeError(error.cause, hasStack, depth + 1)
    return described
  } catch {
    return { type: 'an error that cannot be read' }
  }
}

/** Lines are written in chunks: a system call for each would cost more than the line itself. */
const chunkLength = 4_096
const flushEveryMs = 250
/** How many bytes are kept while standard output cannot be written, such as a file on a full disk. */
const maximumKept = 1_048_576

let lost = 0

/** Returns how many lines of the log were lost because standard output could not be written. */
export const lostLines = () => lost

/**
 * Writes to standard output in chunks of about 4 kB; the last one after 250 ms, with a fatal line, or at the exit. Pino's own
 * buffer counts the bytes of all its lines again with each line. If the log cannot be written, the service continues.
 */
function bufferOutput(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: true, maxLength: maximumKept })
  // Nothing to do: pino keeps what could not be written, and writes it with the next chunk.
  output.removeAllListeners('error') // pino's own ends all writing once the reader has gone
  output.on('error', () => {})
  output.on('drop', (chunk: string) => {
    lost += chunk.split('\n').length - 1
    output.write('') // dropping a chunk does not retry the write
  })
  let lines = ''
  // The destination writes each chunk at once. Its own `flushSync` could wait for a reader for ever.
  const flushSync = () => {
    if (lines !== '') output.write(lines)
    lines = ''
  }
  setInterval(flushSync, flushEveryMs).unref()
  process.once('exit', flushSync)
  return {
    write(line) {
      lines += line
      if (lines.length >= chunkLength) flushSync()
    },
    flushSync
  }
}

const serializers = {
  err: (error: unknown) => describeError(error, true),
  /** Without the stack: in an outage, thousands of lines a second have a cause. */
  cause: (error: unknown) => describeError(error, false)
}

/** Makes the logger. `level` is one of pino's; the lines go to standard output or to `destination`. */
export function createLogger(level: string, destination: DestinationStream = bufferOutput()) {
  return pino({ level, base: null, serializers }, destination)
}
