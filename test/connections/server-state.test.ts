/** The phases of a server's shutdown. */
import t from 'tap'
import { ServerState } from '../../src/connections/server-state.ts'

const limits = { headersTimeoutMs: 1, requestTimeoutMs: 1, keepAliveTimeout: 1 }

t.test('a server can stop with or without an announcement, and never goes back', async (t) => {
  const announced = new ServerState(limits)
  for (const phase of ['lastResponses', 'stopping', 'stopping'] as const) {
    announced.enter(phase)
    t.equal(announced.phase, phase)
  }
  t.throws(() => announced.enter('lastResponses'), { message: 'a server never goes back to lastResponses' })
  const sudden = new ServerState(limits)
  t.equal(sudden.phase, 'serving')
  sudden.enter('stopping')
  t.equal(sudden.phase, 'stopping')
})
