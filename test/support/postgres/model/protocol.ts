/** The part of PostgreSQL's protocol that the driver uses (PostgreSQL manual, "Message Formats"), as the server sees it. */
const cancelRequestCode = 80_877_102
const protocolVersion = 196_608

/** An error that PostgreSQL reports. */
export interface Trouble {
  readonly code: string
  /** `FATAL` ends the session. */
  readonly severity?: 'ERROR' | 'FATAL'
  /** Where a function met it; the statement itself has no context. */
  readonly where?: string
  /** The source file that reports it. */
  readonly file?: string
  /** The function of the source that reports it. */
  readonly routine?: string
}

/** A message of a client; `type` is its byte, or what a first message is. */
export type Message =
  | { type: 'startup'; parameters: Map<string, string> }
  | { type: 'cancel'; processId: number; secretKey: number }
  | { type: 'P'; name: string; text: string }
  | { type: 'B'; name: string; values: (string | null)[] }
  | { type: 'Q'; text: string }
  | { type: 'D' | 'E' | 'S' | 'X' }

/** Cuts a stream into messages of a type byte, a length and a body. */
export class Frames {
  #rest: Buffer = Buffer.alloc(0)
  #hasType: boolean
  /** A client's first message has no type byte. */
  constructor(hasType: boolean) {
    this.#hasType = hasType
  }

  *push(bytes: Buffer): Generator<{ type: string; body: Buffer }> {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    for (;;) {
      const start = this.#hasType ? 1 : 0
      if (this.#rest.length < start + 4) return
      const end = start + this.#rest.readInt32BE(start)
      if (this.#rest.length < end) return
      const type = this.#hasType ? String.fromCharCode(this.#rest[0] as number) : ''
      const body = this.#rest.subarray(start + 4, end)
      this.#rest = this.#rest.subarray(end)
      this.#hasType = true
      yield { type, body }
    }
  }
}

/** Reads a client's message. Throws for one that the model does not know. */
export function readMessage({ type, body }: { type: string; body: Buffer }): Message {
  let at = 0
  const string = () => {
    const end = body.indexOf(0, at)
    const text = body.toString('utf8', at, end)
    at = end + 1
    return text
  }
  const skip = (length: number) => {
    const start = at
    at += length
    return start
  }
  const int16 = () => body.readInt16BE(skip(2))
  const int32 = () => body.readInt32BE(skip(4))
  switch (type) {
    case '': {
      const code = int32()
      if (code === cancelRequestCode) return { type: 'cancel', processId: int32(), secretKey: int32() }
      if (code !== protocolVersion) throw new Error(`a first message that is not modelled: ${code}`)
      const parameters = new Map<string, string>()
      for (let name = string(); name !== ''; name = string()) parameters.set(name, string())
      return { type: 'startup', parameters }
    }
    case 'P':
      return { type, name: string(), text: string() }
    case 'B': {
      const portal = string()
      const name = string()
      const formats = Array.from({ length: int16() }, int16)
      if (portal !== '' || formats.some((format) => format !== 0))
        throw new Error('a Bind that is not modelled')
      const values = Array.from({ length: int16() }, () => {
        const length = int32()
        return length < 0 ? null : body.toString('utf8', skip(length), at)
      })
      return { type, name, values }
    }
    case 'Q':
      return { type, text: string() }
    case 'D':
    case 'E':
    case 'S':
    case 'X':
      return { type }
    default:
      throw new Error(`a message that is not modelled: ${type}`)
  }
}

function write(type: string, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
  const head = Buffer.alloc(5, type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

function integers(size: 2 | 4, ...values: number[]): Buffer {
  const bytes = Buffer.alloc(size * values.length)
  for (const [index, value] of values.entries()) bytes.writeIntBE(value, index * size, size)
  return bytes
}

/** The types of columns by their names; what is not here is text. */
const oids: Record<string, number> = { id: 20, write_id: 2950 }
const booleanOid = 16
const textOid = 25

function writeFields(fields: Record<string, string | undefined>): Buffer[] {
  const known = Object.entries(fields).filter(([, text]) => text !== undefined)
  return [...known.map(([type, text]) => Buffer.from(`${type}${text}\0`)), Buffer.from('\0')]
}

/** The messages of a server. */
export const messages = {
  welcome: (processId: number, secretKey: number, parameters: Record<string, string>) =>
    Buffer.concat([
      write('R', integers(4, 0)),
      ...Object.entries(parameters).map(([name, value]) => write('S', `${name}\0${value}\0`)),
      write('K', integers(4, processId, secretKey)),
      messages.ready
    ]),
  ready: write('Z', 'I'),
  parsed: write('1'),
  bound: write('2'),
  description: (columns: readonly { name: string; isBoolean: boolean }[]) =>
    write(
      'T',
      integers(2, columns.length),
      ...columns.flatMap(({ name, isBoolean }) => [
        `${name}\0`,
        integers(4, 0),
        integers(2, 0),
        integers(4, isBoolean ? booleanOid : (oids[name] ?? textOid)),
        integers(2, -1),
        integers(4, -1),
        integers(2, 0)
      ])
    ),
  row: (values: readonly (string | null)[]) =>
    write(
      'D',
      integers(2, values.length),
      ...values.flatMap((value) =>
        value === null ? [integers(4, -1)] : [integers(4, Buffer.byteLength(value)), Buffer.from(value)]
      )
    ),
  complete: (tag: string) => write('C', `${tag}\0`),
  error: ({ code, severity = 'ERROR', where, file = 'simulated.c', routine }: Trouble) =>
    write(
      'E',
      ...writeFields({
        S: severity,
        V: severity,
        C: code,
        M: `simulated ${code}`,
        W: where,
        F: file,
        R: routine
      })
    ),
  warning: (routine: string) =>
    write('N', ...writeFields({ S: 'WARNING', V: 'WARNING', C: '01000', M: 'simulated warning', R: routine }))
}
