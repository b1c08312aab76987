/** Instances of the service on ports of their own, for a balancer in front of them. */
import type { Test } from 'tap'
import { request } from '../../support/sockets.ts'
import { createDatabase } from '../../support/postgres/database.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { type Running, startProcess } from '../../support/process.ts'

/** A request whose connection the balancer closes after its response. */
export const ask: typeof request = (body, head, start) =>
  request(body, { connection: 'close', ...head }, start)

/** Starts so many on a database of their own; each can be ended, and started again at its port. They end at teardown. */
export async function startInstances(t: Test, count: number, settings: Record<string, string>) {
  const databaseUrl = await createDatabase(t)
  const ports = await Promise.all(Array.from({ length: count }, () => freePort()))
  const running = new Map<number, Running>()
  async function start(port: number): Promise<Running> {
    const own = { DATABASE_URL: databaseUrl, PORT: String(port), WRITE_DEADLINE_MS: String(60_000) }
    const instance = await startProcess(t, { ...own, ...settings })
    running.set(port, instance)
    return instance
  }
  for (const port of ports) await start(port)
  return {
    databaseUrl,
    ports,
    start,
    /** Returns the exit code. */
    async end(port: number, signal: NodeJS.Signals) {
      const instance = running.get(port) as Running
      instance.kill(signal)
      return (await instance.ended).code
    }
  }
}
