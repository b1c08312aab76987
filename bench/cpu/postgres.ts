/**
 * A thread that speaks PostgreSQL's protocol: the CPU time of the database is not that of the thread which is measured. It
 * stores nothing, acknowledges every insert at once, and tells its parent the port.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { parentPort } from 'node:worker_threads'
import { Frames, messages, readMessage } from '../../test/support/postgres/model/protocol.ts'
import { readStatement } from '../../test/support/postgres/model/sql.ts'
import { insertText } from '../servers/repositories.ts'

/** Returns the messages that end a statement. Throws for one that the service has not. */
function run(text: string, values: (string | null)[]): Buffer[] {
  if (text === insertText) return [messages.complete('INSERT 0 1')]
  const command = readStatement(text, values)
  const rows = command.kind === 'insert' ? command.rows : [{ transaction_read_only: 'off' }]
  return [
    messages.description(command.returning),
    ...rows.map((row) => messages.row(command.returning.map((output) => output.value(row, '')))),
    messages.complete(`INSERT 0 ${rows.length}`)
  ]
}

function serve(socket: Socket) {
  const frames = new Frames(false)
  const prepared = new Map<string, string>()
  let response: Buffer[] = []
  const send = () => {
    socket.write(Buffer.concat([...response, messages.ready]))
    response = []
  }
  socket.on('data', (bytes) => {
    for (const frame of frames.push(bytes)) {
      const message = readMessage(frame)
      switch (message.type) {
        case 'startup':
          socket.write(messages.welcome(0, 0, { server_version: '18.4' }))
          break
        case 'P':
          prepared.set(message.name, message.text)
          response.push(messages.parsed)
          break
        case 'B':
          response.push(messages.bound, ...run(prepared.get(message.name) as string, message.values))
          break
        case 'Q':
          response.push(...run(message.text, []))
          send()
          break
        case 'S':
          send()
      }
    }
  })
}

const server = createServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port))
