/** A server under test: a process of its own with production's settings. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../dev/embedded-postgres.ts'
import { token } from './plant.ts'

const root = join(import.meta.dirname, '..')

/** The servers that can be tested: how Node starts each. */
export const servers = {
  service: ['dist/server.js'],
  plain: ['bench/servers/plain.ts'],
  ceiling: ['bench/servers/ceiling.ts'],
  /** The service, with a look into its heap. */
  watched: ['--expose-gc', '--import', './bench/servers/report-heap.ts', 'dist/server.js']
}

/** A server that listens. */
export interface Server {
  /** Where plants are posted. */
  url: string
  pid: number
  /** Gives the metrics page. */
  readMetrics(): Promise<string>
  /** Empties the log, which is a file on disk: hours of load would fill it. */
  clearLog(): Promise<void>
  /** Gives the bytes that a watched server's heap holds after a collection. */
  readHeap(): Promise<number>
  stop(): Promise<void>
}

/**
 * Starts a server on a database; `directory` takes its log, `settings` replace the defaults. Throws when it does not
 * listen within 30 s.
 */
export async function startServer(
  name: keyof typeof servers,
  databaseUrl: string,
  directory: string,
  settings: Record<string, string> = {}
): Promise<Server> {
  const [port, metricsPort] = [await freePort(), await freePort()]
  const log = join(directory, `${name}-${port}.log`)
  const output = await open(log, 'a')
  const child = spawn(process.execPath, servers[name], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      DATABASE_URL: databaseUrl,
      AUTH_TOKENS: `bench:${token}`,
      ...settings
    },
    stdio: ['ignore', output.fd, 'inherit', name === 'watched' ? 'ipc' : 'ignore']
  })
  await output.close()
  // For a server that is not ready yet when the benchmark is interrupted.
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}/plants`
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  const deadline = performance.now() + 30_000
  while (!(await answers(url))) {
    if (child.exitCode !== null || performance.now() > deadline) {
      await stop()
      throw new Error(`${name} does not listen`)
    }
    await sleep(100)
  }
  return {
    url,
    pid: child.pid as number,
    readMetrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
    clearLog: () => truncate(log),
    readHeap: async () => {
      child.send('heap?')
      const [bytes] = await once(child, 'message')
      return bytes
    },
    stop
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false
  )
}
