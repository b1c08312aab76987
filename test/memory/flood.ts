/** A process that floods a service: `flood.ts URL CONNECTIONS < requests`. Each connection sends the bytes again after each response. */
import { text } from 'node:stream/consumers'
import { connectTo } from '../../harness/http/raw.ts'

const [url = '', count = ''] = process.argv.slice(2)
const sent = await text(process.stdin)

function open() {
  const socket = connectTo(url)
  const again = () => socket.destroyed || socket.write(sent)
  socket.once('connect', again).on('data', again)
  socket.on('error', () => {}).once('close', open)
}

for (let index = 0; index < Number(count); index++) open()
process.stdout.write('flooding\n')
