/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import { type DestinationStream, pino } from 'pino'

const maximumCauses = 5
const maximumLength = 10_000

/**
 * Describes an error for the log: its type, code and, if wanted, stack, and the same of its causes. Never throws.
 * PostgreSQL's messages can quote a row, so of its errors only the code and the names of things are kept.
 */
function describeError(error: unknown, hasStack: boolean, depth = 0): object {
  try {
    if (!(error instanceof Error)) return { type: typeof error }
    const known = error as Error & Record<string, unknown>
    const { name, message, stack, cause, code } = known
    const { severity, schema, table, column, constraint, routine } = known
    const texts =
      'severity' in error
        ? { severity, schema, table, column, constraint, routine }
        : { message, stack: hasStack ? stack : undefined }
    return {
      type: error.constructor.name,
      ...keepPlain({ name, code, ...texts }),
      cause:
        cause === undefined || depth === maximumCauses ? undefined : describeError(cause, hasStack, depth + 1)
    }
  } catch {
    return { type: 'an error that cannot be read' }
  }
}

/** Other values that an error carries may be large or cyclic, or throw when they are read. */
function keepPlain(fields: Record<string, unknown>): Record<string, unknown> {
  const plain: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') plain[name] = value.slice(0, maximumLength)
    else if (typeof value === 'number') plain[name] = value
  }
  return plain
}

/** Lines are written in pieces: a system call for each would cost more than the line itself. */
const pieceLength = 4_096
const flushEveryMs = 250
/** How many bytes are kept while standard output cannot be written, such as a file on a full disk. */
const maximumKept = 1_048_576

let lost = 0

/** Returns how many lines of this process's log were lost: they came while standard output could not be written. */
export const lostLines = (): number => lost

/**
 * Standard output, in pieces of about 4 kB, the last of them after 250 ms, with a fatal line, or at the exit. Pino's own
 * buffer counts the bytes of all that it holds with each line. A service whose log cannot be written serves on.
 */
function bufferOutput(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: true, maxLength: maximumKept })
  // Nothing to do: what could not be written is kept, and written with the next piece.
  output.removeAllListeners('error') // pino's own writes nothing more once a reader has gone
  output.on('error', () => {})
  output.on('drop', (piece: string) => (lost += piece.split('\n').length - 1))
  let lines = ''
  // The destination writes a piece at once. Its own `flushSync` could wait for room for ever.
  const flushSync = () => {
    const piece = lines
    lines = ''
    if (piece !== '') output.write(piece)
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

/** How errors are logged: `err` in full, `cause` without stacks, for what thousands of lines a second can have. */
const serializers = {
  err: (error: unknown) => describeError(error, true),
  cause: (error: unknown) => describeError(error, false)
}

/** Makes the logger. `level` is one of pino's; the lines go to standard output or to `destination`. */
export function createLogger(level: string, destination: DestinationStream = bufferOutput()) {
  return pino({ level, base: null, serializers }, destination)
}
