/** The log: JSON lines by pino, without anything that a client sent or PostgreSQL quoted. */
import fs from 'node:fs'
import { type Logger, pino } from 'pino'

const maximumCauses = 5
const maximumLength = 10_000

/** Of PostgreSQL's reports. Not the message, the detail and the hint, which can quote a row. */
const fieldsOfReports = 'name code severity schema table column dataType constraint routine'.split(' ')
/** The function that has raised an error, in the first line of its context. */
const raisedBy = /^PL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\(/
/** The function whose statement has failed, in the last line; a statement before it may quote any text. */
const calledBy = /\nPL\/pgSQL function ((?:[\w$.]|"[^"\n]{1,63}"){1,200})\([^\n]*\) line \d+ at [^\n]*$/

/** Describes an error for the log: its type, these fields, or those of a report, and its causes. Never throws. */
function describe(error: unknown, fields: string[], depth = 0): object {
  try {
    if (!(error instanceof Error)) return { type: typeof error }
    const described: Record<string, unknown> = { type: error.constructor.name }
    for (const name of 'severity' in error ? fieldsOfReports : fields) {
      const value = Reflect.get(error, name)
      // Other values may be large or cyclic, or throw when they are read. A code that is a number says nothing, such as the
      // 23 of an AbortSignal's TimeoutError.
      if (typeof value === 'string') described[name] = value.slice(0, maximumLength)
    }
    const where = String(Reflect.get(error, 'where'))
    const [, name] = raisedBy.exec(where) ?? calledBy.exec(where) ?? []
    if (name !== undefined) described.function = name
    if (error.cause !== undefined && depth < maximumCauses)
      described.cause = describe(error.cause, fields, depth + 1)
    return described
  } catch {
    return { type: 'an error that cannot be read' }
  }
}

/** Lines are written in chunks of this many characters: a system call for each would cost more than the line itself. */
const chunkLength = 16_384
const flushEveryMs = 250
/** How soon a reader that had no room is tried again at the exit. */
const retryMs = 10
/** How many bytes are kept while standard output takes none: its reader stalls or has gone, or its disk is full. */
const maximumKept = 1_048_576
/** How long the exit waits for a reader that has no room. */
const exitMs = 1_000

/** Standard output. A write never waits: what is not taken is kept, up to a limit, and tried again. */
class Output {
  /** Whole lines that no write has tried. */
  #text = ''
  /** What the last write has left. */
  #rest = Buffer.alloc(0)
  /** How many lines were lost. */
  lost = 0

  /** Takes a line with its end. */
  write(line: string): void {
    if (this.#rest.length + this.#text.length + line.length > maximumKept) this.lost++
    else this.#text += line
    if (this.#text.length >= chunkLength) this.flushSync()
  }

  /** Writes what is left, waiting for a slow reader up to a second. What it does not take is lost. */
  end(): void {
    const endsAt = performance.now() + exitMs
    const never = new Int32Array(new SharedArrayBuffer(4))
    while (this.flushSync() === 'EAGAIN' && performance.now() < endsAt) Atomics.wait(never, 0, 0, retryMs)
  }

  /** Writes what there is room for; pino calls it after a fatal line. Returns the code of the error that ended it. */
  flushSync(): string | undefined {
    this.#rest = Buffer.concat([this.#rest, Buffer.from(this.#text)])
    this.#text = ''
    try {
      while (this.#rest.length > 0) this.#rest = this.#rest.subarray(fs.writeSync(1, this.#rest))
      return undefined
    } catch (error) {
      return (error as NodeJS.ErrnoException).code
    }
  }
}

/** Standard output, and how many lines it has lost. */
export const output = new Output()

const serializers = {
  err: (error: unknown) => describe(error, ['name', 'code', 'message', 'stack']),
  /** Without the stack: in an outage, thousands of lines a second have a cause. */
  cause: (error: unknown) => describe(error, ['name', 'code', 'message'])
}

/** Makes the logger, at a level of pino's. The last lines are written after 250 ms, with a fatal line, or at the exit. */
export function createLogger(level: string): Logger {
  // Node makes a pipe or a socket non-blocking when it opens its stream, which is not used otherwise: at the exit, it does not
  // say how much the reader has taken. A terminal blocks.
  void process.stdout
  setInterval(() => output.flushSync(), flushEveryMs).unref()
  // At every exit, however it comes about.
  process.once('exit', () => output.end())
  return pino({ level, base: null, serializers }, output)
}
