/** The project's processes, run as users run them. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Teardown } from './teardown.ts'

export const root = join(import.meta.dirname, '../..')

/** The entry points; nothing else of `src` is known to the promises' tests. */
export const serverFile = 'src/server.ts'
export const migrateFile = 'src/commands/migrate.ts'

/** Where Node keeps what it has compiled: a process starts in half the time. */
export const compileCache = process.env.NODE_COMPILE_CACHE ?? join(root, '.tap/compile-cache')

/** How a process ended, and all that it wrote. */
interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** A process that runs. */
export interface Running {
  /** Resolves with the match as soon as standard output holds one; rejects when the process ends without one. */
  output(pattern: RegExp): Promise<RegExpExecArray>
  /** Returns standard output so far. */
  text(): string
  /** Resolves when the process has ended and its output is complete. */
  ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
  /** Kills it by SIGKILL, and resolves when it is gone. */
  end(): Promise<unknown>
  child: ChildProcess
}

interface Options {
  args?: string[]
  flags?: string[]
  stdio?: StdioOptions
}

/**
 * Spawns a file of the project with these variables, and none of the tests' own but PATH.
 *
 * tap adds NODE_OPTIONS to each process that a test starts, by which it would load itself into the service. No user's process
 * has that, and a start would take a third longer. So `env` removes the variable, and becomes the process.
 */
export function spawnFile(
  file: string,
  env: NodeJS.ProcessEnv,
  { args = [], flags = [], stdio = ['ignore', 'pipe', 'pipe'] }: Options = {}
): ChildProcess {
  const command = [process.execPath, ...flags, join(root, file), ...args]
  return spawn('env', ['-u', 'NODE_OPTIONS', ...command], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compileCache, ...env },
    stdio
  })
}

/** Starts a file of the project by `spawnFile`. It is killed at teardown. */
export function start(
  t: Teardown,
  file: string,
  env: NodeJS.ProcessEnv = {},
  options: Omit<Options, 'stdio'> = {}
): Running {
  const child = spawnFile(file, { METRICS_PORT: '0', ...env }, options)
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr?.setEncoding('utf8').on('data', (text) => (stderr += text))
  const ended = once(child, 'close').then(([code]) => ({ code, stdout, stderr }))
  const end = () => {
    child.kill('SIGKILL')
    return ended
  }
  t.teardown(end)
  return {
    output: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(stdout)
          if (match) resolve(match)
        }
        child.stdout?.on('data', look)
        look()
        ended.then((end) => reject(new Error(`ended without ${pattern}: ${JSON.stringify(end)}`)))
      }),
    text: () => stdout,
    ended,
    kill: (signal) => child.kill(signal),
    end,
    child
  }
}

/** Runs a file of the project to its end. */
export const run = (
  t: Teardown,
  file: string,
  env?: NodeJS.ProcessEnv,
  args?: string[]
): Promise<Ended> => start(t, file, env, { args: args ?? [] }).ended
