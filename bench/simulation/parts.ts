/** How the service spends a request's CPU time: the parts come at different times when many are answered together. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { Writable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { createLogger } from '../../src/logger.ts'
import { headers, makeBody, token } from '../plant.ts'
import { usedUs } from '../usage.ts'

/** Parts of a request's CPU time; their sum is 1. */
export interface Parts {
  /** From its first byte until its row waits for storage. */
  read: number
  /** From its row's answer until its own has left. */
  answer: number
  /** What is left to do then, such as its line in the log. Where many are answered, all answers leave before. */
  finish: number
}

const clients = 64
const waves = 400
const warmUpWaves = 100

/** Measures the parts on waves of requests that come at once and are answered at once, in the service's application. */
export async function measureParts(): Promise<Parts> {
  const environment = { DATABASE_URL: 'postgres://localhost/plants', AUTH_TOKENS: token, METRICS_PORT: 'off' }
  const log = new Writable({ write: (_, __, done) => done() })
  const app = await buildApp(readConfig(environment), createLogger('info', log))
  const waiting: (() => void)[] = []
  const spentUs = { read: 0, answer: 0, finish: 0 }
  let began = process.cpuUsage()
  let finished = 0

  function spend(part: keyof Parts) {
    spentUs[part] += usedUs(began)
    began = process.cpuUsage()
  }

  const create = () =>
    new Promise<void>((resolve) => {
      if (waiting.push(resolve) === 1) began = process.cpuUsage()
      if (waiting.length === clients) spend('read')
    })
  Object.assign(app.plants, { create })
  app.addHook('onResponse', (_, __, done) => {
    if (++finished === 1) spend('answer')
    if (finished === clients) spend('finish')
    done()
  })
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const sockets = Array.from({ length: clients }, () => connect(Number(port), '127.0.0.1').setNoDelay())
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (let wave = -warmUpWaves; wave < waves; wave++) {
    if (wave === 0) Object.assign(spentUs, { read: 0, answer: 0, finish: 0 })
    finished = 0
    for (const socket of sockets) socket.write(makeRequest())
    while (waiting.length < clients) await nextTurn()
    const answers = sockets.map((socket) => once(socket, 'data'))
    began = process.cpuUsage()
    for (const resolve of waiting.splice(0)) resolve()
    await Promise.all(answers)
  }
  for (const socket of sockets) socket.destroy()
  await app.close()
  const sum = spentUs.read + spentUs.answer + spentUs.finish
  return { read: spentUs.read / sum, answer: spentUs.answer / sum, finish: spentUs.finish / sum }
}

function makeRequest(): string {
  const body = makeBody()
  const fields = { host: 'localhost', ...headers, 'content-length': String(body.length) }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST /plants HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}
