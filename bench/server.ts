/** A server under test: a process of its own with production's settings. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { open, readFile, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../test/support/postgres/embedded-postgres.ts'
import { token } from './plant.ts'

const root = join(import.meta.dirname, '..')

/** The service's options of Node. */
export const options = readStart(root).filter((word) => word.startsWith('--'))

/** The servers that can be tested: how Node starts each. What differs from the service in one thing has its options. */
export const servers = {
  service: readStart(root),
  'as documented': ['bench/servers/main.ts', 'documented'],
  'one insert a request': [...options, 'bench/servers/one-insert.ts'],
  'bare Fastify': [...options, 'bench/servers/main.ts', 'bare']
}

/** Returns the arguments with which `npm start` starts the service in a directory, besides the file of settings. */
export function readStart(directory: string): string[] {
  const { scripts } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))
  const words: string[] = scripts.start.split(' ')
  return words.filter((word) => /^--(?!env-file)|\.js$/.test(word))
}

/** How long a server may take to be ready, on a machine that has much else to do. */
const startLimitMs = 120_000

/** How long a server may take to end; the service allows itself 30 s. */
const endLimitMs = 40_000

/** What a server is started from. */
export interface Program {
  name: string
  /** Node's arguments. */
  args: string[]
  /** Where it is started. */
  directory: string
  /** What it writes to standard error goes to its log, or to ours. */
  errors: 'log' | 'ours'
}

/** When a server counts as started, and how often it is asked, in ms. */
interface Readiness {
  isReady(url: string): Promise<boolean>
  everyMs: number
}

/** A server that listens. */
export interface Server {
  /** Where plants are posted. */
  url: string
  pid: number
  /** How long it took from the start of its process until it was ready, in ms. */
  startUpMs: number
  /** Empties the log, which is a file on disk: hours of load would fill it. */
  clearLog(): Promise<void>
  /** Whether its process has ended. */
  hasEnded(): boolean
  stop(): Promise<void>
  kill(): Promise<void>
}

/** Names one of the servers here as a program. */
export function findProgram(name: keyof typeof servers): Program {
  return { name, args: servers[name], directory: root, errors: 'ours' }
}

/** Starts a server on a database; `directory` takes its log. Throws when it is not ready within 2 minutes. */
export async function startServer(
  { name, args, directory: cwd, errors }: Program,
  databaseUrl: string,
  directory: string,
  { isReady, everyMs }: Readiness = { isReady: answers, everyMs: 100 }
): Promise<Server> {
  const port = await freePort()
  const log = join(directory, `${name}-${port}.log`)
  const output = await open(log, 'a')
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, {
    cwd,
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: 'off',
      DATABASE_URL: databaseUrl,
      AUTH_TOKENS: `bench:${token}`,
      AUTH_TOKEN: token
    },
    stdio: ['ignore', output.fd, errors === 'log' ? output.fd : 'inherit']
  })
  await output.close()
  // For a server that is not ready yet when the benchmark is interrupted.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  const url = `http://127.0.0.1:${port}/plants`
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    if (hasEnded()) return
    const ended = once(child, 'exit')
    child.kill(signal)
    const limit = setTimeout(() => child.kill('SIGKILL'), endLimitMs)
    await ended
    clearTimeout(limit)
  }
  while (!(await isReady(url))) {
    if (hasEnded() || performance.now() > startedAt + startLimitMs) {
      await end('SIGKILL')
      throw new Error(`${name} does not listen: ${(await readFile(log, 'utf8')).slice(-2000)}`)
    }
    await sleep(everyMs)
  }
  const startUpMs = performance.now() - startedAt
  return {
    url,
    pid: child.pid as number,
    startUpMs,
    clearLog: () => truncate(log),
    hasEnded,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL')
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false
  )
}
