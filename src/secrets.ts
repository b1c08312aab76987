/** Secrets: read from a variable or from the file that a variable names, and read again whenever that file changes. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'
import { StartupFault } from './startup-fault.ts'

/** The process's environment variables. */
export type Environment = Record<string, string | undefined>

/** A file, and its text when it was read at the start. */
export interface SecretFile {
  readonly path: string
  readonly text: string
}

/** What a secret says, and the file that it came from, if it came from one. */
export interface Secret<T> {
  readonly value: T
  readonly file: SecretFile | undefined
}

/** Returns the first of these names that is set, as NAME or by the file that NAME_FILE names. */
export const findSecret = (env: Environment, names: readonly string[]) =>
  names.find((name) => env[name] || env[`${name}_FILE`])

/**
 * Reads the first of these secrets that is set; one is required. Returns undefined, and adds a line to `faults`, if none is
 * set or its text cannot be read or parsed: `parse` throws a StartupFault. No line holds a secret.
 */
export function readSecret<T>(
  env: Environment,
  names: readonly string[],
  parse: (text: string) => T,
  faults: string[]
): Secret<T> | undefined {
  const name = findSecret(env, names)
  if (name === undefined) {
    faults.push(`${names.at(-1)} is required`)
    return undefined
  }
  const path = env[`${name}_FILE`]
  let text = env[name] ?? ''
  if (text && path) faults.push(`${name} and ${name}_FILE must not both be set`)
  try {
    if (path) text = readFileSync(path, 'utf8').trim()
    return { value: parse(text), file: path ? { path, text } : undefined }
  } catch (error) {
    if (error instanceof StartupFault) faults.push(...error.faults.map((fault) => `${name} ${fault}`))
    else
      faults.push(`${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
    return undefined
  }
}

/** How often the file is read. A text takes effect once two readings agree: half of a secret may be valid, too. */
const readEveryMs = 500

/**
 * Follows the file that the setting `name` names, if any. Passes each new text to `use`, which returns what to log, or throws
 * a StartupFault to keep the earlier text.
 */
export function followSecret(
  name: string,
  file: SecretFile | undefined,
  log: FastifyBaseLogger,
  use: (text: string) => object
) {
  if (file === undefined) {
    const reload = async () => log.info(`${name} is not set; nothing to reload`)
    return { isBroken: () => false, reload, close() {} }
  }
  const { path } = file
  /** The text that was judged last, or why the file could not be read; and what was read last. */
  let judged = file.text
  let seen = file.text
  let isBroken = false
  let isClosed = false

  async function read(isReload: boolean) {
    const unreadable = ({ code }: NodeJS.ErrnoException) => new StartupFault([`cannot be read (${code})`])
    const found = await readFile(path, 'utf8').catch(unreadable)
    const text = String(found).trim()
    const isSettled = text === seen && text !== judged
    seen = text
    if (isClosed || !(isReload || isSettled)) return
    judged = text
    try {
      if (found instanceof StartupFault) throw found
      log.info(use(text), `${name} was read`)
      isBroken = false
    } catch (error) {
      isBroken = true
      const { faults } = error as StartupFault
      log.error({ faults }, `${name} is broken; keeping the earlier text`)
    }
  }

  const timer = setInterval(() => void read(false), readEveryMs).unref()
  return {
    /** Whether the newest text is broken, so that an earlier one stays in use. */
    isBroken: () => isBroken,
    /** Reads the file now, and uses what it holds. Never rejects. */
    reload: () => read(true),
    /** Stops following, and ignores a read in progress. */
    close() {
      isClosed = true
      clearInterval(timer)
    }
  }
}
