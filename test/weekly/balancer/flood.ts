/** A process that floods: `flood.ts URL KIND`, from eight addresses of this machine. Connections that end are opened again. */
import { connect, type Socket } from 'node:net'
import { token } from '../../support/service.ts'

const head = (length: string) =>
  `POST /plants HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n${length}\r\n\r\n`
const post = (body: string) => `${head(`content-length: ${body.length}`)}${body}`
const refused = 'POST /plants HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n'
const nested = post(`{"id":1,"name":"n","x":${'['.repeat(500_000)}${']'.repeat(500_000)}}`)
const pipelined = post('{').repeat(100)
let lastId = 2 ** 40

/** Sends a text once, and then a piece of it again and again. */
const slowly = (first: string, piece: string, everyMs: number) => (socket: Socket) => {
  socket.write(first)
  const timer = setInterval(() => socket.write(piece), everyMs)
  socket.once('close', () => clearInterval(timer))
}
/** Sends a text, and again with each piece of the response. */
const inLoop = (text: string) => (socket: Socket) => {
  socket.write(text)
  socket.on('data', () => socket.write(text))
}
/** Sends a text again and again, and reads nothing. */
const deaf = (text: string) => (socket: Socket) => {
  const send = () => socket.write(text, () => setTimeout(send, 100))
  socket.pause()
  send()
}

/** Each kind: how many connections, and what one does. */
export const kinds: Record<string, [connections: number, act: (socket: Socket) => void]> = {
  'idle connections': [4_200, () => {}],
  'slow headers': [4_200, slowly('POST /plants HTTP/1.1\r\nhost: test\r\nx: ', 'x', 2_000)],
  'refusals in a loop': [512, inLoop(refused)],
  'slow bodies': [600, slowly(head('content-length: 100000'), ' ', 100)],
  'slow chunked bodies': [600, slowly(head('transfer-encoding: chunked'), '1\r\n \r\n', 50)],
  'nested values': [16, inLoop(nested)],
  pipelines: [40, inLoop(pipelined)],
  'pipelines that read nothing': [400, deaf(pipelined)],
  'responses that are not read': [
    1_500,
    (socket) => socket.pause().write(post(`{"id":${++lastId},"name":"${'n'.repeat(20_000)}"}`))
  ]
}

function flood(url: string, kind: string) {
  const { hostname: host, port } = new URL(url)
  const [connections, act] = kinds[kind] ?? process.exit(1)
  const open = (index: number) => {
    const socket = connect({ host, port: Number(port), localAddress: `127.0.1.${1 + (index % 8)}` })
    socket.once('connect', () => act(socket))
    socket.on('error', () => {}).once('close', () => setTimeout(open, 100, index))
  }
  // Sockets that are not read do not keep a process running.
  setInterval(() => {}, 1_000)
  for (let index = 0; index < connections; index++) open(index)
  process.stdout.write('flooding\n')
}

if (import.meta.main) flood(process.argv[2] as string, process.argv[3] as string)
