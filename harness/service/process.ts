/** The project's processes, run as users run them. */
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'
import type { Teardown } from '../teardown.ts'
import { checkLine } from './log-fields.ts'
import { patientSettings, token } from './service.ts'

const root = join(import.meta.dirname, '../..')

/** Where Node keeps what it has compiled: a process starts in half the time. */
const compileCache = join(root, '.tap/compile-cache')

/**
 * The variables of a process whose lines count for tap's coverage, which makes its start twice as long. Code from the
 * cache would be covered too coarsely.
 */
export const covered = { NODE_OPTIONS: process.env.NODE_OPTIONS, NODE_COMPILE_CACHE: undefined }

/** How a process ended, and all that it wrote. */
export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** A process that runs. */
export interface Running {
  /** Resolves with the match as soon as standard output holds one; rejects when the process ends without one. */
  output(pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves when the process has ended and its output is complete. */
  ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
  /** The process itself; with Node's flags it has a channel for messages. */
  child: ChildProcess
}

/**
 * Starts a file of the project with these variables and none of the caller's settings, and with these flags of Node.
 * The process is killed at teardown if it still runs then.
 */
export function start(
  t: Teardown,
  [file, ...args]: [string, ...string[]],
  env: NodeJS.ProcessEnv = {},
  flags?: string[]
): Running {
  const child = spawn(process.execPath, [...(flags ?? []), join(root, file), ...args], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compileCache, METRICS_PORT: '0', ...env },
    stdio: flags ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['ignore', 'pipe', 'pipe']
  }) as ChildProcessByStdio<null, Readable, Readable>
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  const ended = once(child, 'close').then(([code]) => ({ code, stdout, stderr }))
  t.teardown(() => child.kill('SIGKILL'))
  return {
    output: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(stdout)
          if (match) resolve(match)
        }
        child.stdout.on('data', look)
        look()
        ended.then((end) => reject(new Error(`ended without ${pattern}: ${JSON.stringify(end)}`)))
      }),
    ended,
    kill: (signal) => child.kill(signal),
    child
  }
}

/** Starts the service for the tests' caller, on a free port of 127.0.0.1 by default; resolves when it listens. */
export async function startProcess(t: Teardown, env: NodeJS.ProcessEnv, flags?: string[]) {
  const address = { HOST: '127.0.0.1', PORT: '0' }
  const settings = { ...patientSettings, ...address, AUTH_TOKENS: `tester:${token}`, ...env }
  const process = start(t, ['src/server.ts'], settings, flags)
  let rest = ''
  process.child.stdout?.on('data', (text) => {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() as string
    lines.forEach(checkLine)
  })
  const [, url = ''] = await process.output(/Server listening at (http:[^"]+)/)
  return { ...process, url }
}

/** Runs a file of the project to its end. */
export function run(t: Test, file: [string, ...string[]], env?: NodeJS.ProcessEnv): Promise<Ended> {
  return start(t, file, env).ended
}
