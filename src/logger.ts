/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import { type DestinationStream, pino } from 'pino'

const maximumCauses = 5
const maximumLength = 10_000

/** What is kept of an error. PostgreSQL's messages can quote a row: of its errors, the code and the names of things. */
const kept = ['name', 'code', 'message', 'stack']
const keptOfReports = ['name', 'code', 'severity', 'schema', 'table', 'column', 'constraint', 'routine']

/** Describes an error for the log: its type, what is kept of it, with or without the stack, and its causes. Never throws. */
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
    if (error.cause !== undefined && depth < maximumCauses)
      described.cause = describeError(error.cause, hasStack, depth + 1)
    return described
  } catch {
    return { type: 'an error that cannot be read' }
  }
}

/** Lines are written in pieces: a system call for each would cost more than the line itself. */
const pieceLength = 4_096
const flushEveryMs = 250
/** How many bytes are kept while standard output cannot be written, such as a file on a full disk. */
const maximumKept = 1_048_576

let lost = 0

/** Returns how many lines of the log were lost: they came while standard output could not be written. */
export const lostLines = () => lost

/**
 * Standard output, in pieces of about 4 kB, the last of them after 250 ms, with a fatal line, or at the exit. Pino's own
 * buffer counts the bytes of all that it holds with each line. A service whose log cannot be written serves on.
 */
function bufferOutput(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: true, maxLength: maximumKept })
  // Nothing to do: what could not be written is kept, and written with the next piece.
  output.removeAllListeners('error') // pino's own writes nothing more once a reader has gone
  output.on('error', () => {})
  output.on('drop', (piece: string) => {
    lost += piece.split('\n').length - 1
    output.write('') // a piece that does not fit is no new attempt
  })
  let lines = ''
  // The destination writes a piece at once. Its own `flushSync` could wait for room for ever.
  const flushSync = () => {
    if (lines !== '') output.write(lines)
    lines = ''
  }
  setInterval(flushSync, flushEveryMs).unref()
  process.once('exit', flushSync)
  return {
    write(line) {
      lines += line
      if (lines.length >= pieceLength) flushSync()
    },
    flushSync
  }
}

const serializers = {
  err: (error: unknown) => describeError(error, true),
  /** Without the stack: thousands of lines a second can have one. */
  cause: (error: unknown) => describeError(error, false)
}

/** Makes the logger. `level` is one of pino's; the lines go to standard output or to `destination`. */
export function createLogger(level: string, destination: DestinationStream = bufferOutput()) {
  return pino({ level, base: null, serializers }, destination)
}
