/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import { type DestinationStream, pino } from 'pino'

const maximumCauses = 5
const maximumLength = 10_000

/**
 * Describes an error for the log: its type, code and, if wanted, stack, and the same of its causes. Never throws.
 * What PostgreSQL says of an error can quote a row, so of its errors only the code and the names of things are kept.
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

/** Whatever an error carries besides texts and numbers may be large, or hold itself, or throw when it is read. */
function keepPlain(fields: Record<string, unknown>): Record<string, unknown> {
  const plain: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') plain[name] = value.slice(0, maximumLength)
    else if (typeof value === 'number') plain[name] = value
  }
  return plain
}

/** A system call for each line would cost more than the line itself. */
const pieceLength = 4_096
const flushEveryMs = 250

/**
 * Standard output, in pieces of about 4 kB, the last of them after 250 ms, with a fatal line, or at the exit. Pino's own
 * buffer counts the bytes of all that it holds with each line.
 */
function bufferOutput(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: true })
  let lines = ''
  const flush = () => {
    const piece = lines
    // Also where the write fails: the destination has it by then, and sends it with the next.
    lines = ''
    if (piece !== '') output.write(piece)
  }
  const flushSync = () => {
    flush()
    output.flushSync()
  }
  setInterval(flush, flushEveryMs).unref()
  process.once('exit', flushSync)
  return {
    write(line) {
      lines += line
      if (lines.length >= pieceLength) flush()
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
