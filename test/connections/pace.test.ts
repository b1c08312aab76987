/** How fast a client is read that sends as fast as it can: nobody has a turn of the event loop alone. */
import { once } from 'node:events'
import t from 'tap'
import { open, request } from '../../harness/http/raw.ts'
import { startService } from '../../harness/service/service.ts'

const service = await startService(t)
const fullBytes = 65_536

t.test('of a refused body without an end, few full chunks are read in a turn', async (t) => {
  const client = await open(t, service.url)
  client.send(request('', { authorization: undefined, 'content-length': '1000000000000' }))
  t.equal((await client.responses(1))[0]?.status, 400)
  const [connection] = service.app.connections.all()
  let [inTurn, most, total] = [0, 0, 0]
  let fault: unknown
  connection?.socket.on('data', ({ length }: Buffer) => {
    const now = performance.now()
    if (total === 0) connection.check(now)
    fault ??= connection.check(now + 1e9)
    if (length >= fullBytes) inTurn++
    total += length
    most = Math.max(most, inTurn)
  })
  let isRunning = true
  const endTurn = () => {
    inTurn = 0
    if (isRunning) setImmediate(endTurn)
  }
  endTurn()
  const piece = Buffer.alloc(4_000_000, ' ')
  while (total < 100_000_000) if (!client.socket.write(piece)) await once(client.socket, 'drain')
  isRunning = false
  t.ok(most <= 2, `${most} full chunks in a turn`)
  t.equal(fault, 'late', 'its time passes, although it is paused in each turn')
})

t.test('a refused body in one large chunk leaves its connection open', async (t) => {
  const client = await open(t, service.url)
  const refused = { authorization: undefined, 'content-length': undefined, 'transfer-encoding': 'chunked' }
  const chunk = ' '.repeat(60_000)
  client.send(`${request('', refused)}${chunk.length.toString(16)}\r\n${chunk}\r\n0\r\n\r\n`)
  client.send(request('{"id":1,"name":"n"}'))
  const statuses = (await client.responses(2)).map(({ status }) => status)
  t.strictSame(statuses, [400, 200])
})
