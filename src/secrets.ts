/** Secrets: read from a variable or from the file that a variable names, and read again whenever that file changes. */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  statSync,
  unwatchFile,
  watchFile
} from 'node:fs'
import type { FastifyInstance } from 'fastify'
import { StartupFault } from './startup-fault.ts'

/** What a secret says, its text, and the path of the file that it came from, if it came from one. */
export interface Secret<T> {
  readonly value: T
  readonly text: string
  readonly path: string | undefined
}

/**
 * Reads the secret NAME, or the file that NAME_FILE names. Returns undefined, and adds a line to `faults`, if none is set or its
 * text cannot be read or parsed: `parse` throws a StartupFault. No line holds a secret.
 */
export function readSecret<T>(
  env: NodeJS.ProcessEnv,
  name: string,
  parse: (text: string) => T,
  faults: string[]
): Secret<T> | undefined {
  const path = env[`${name}_FILE`] || undefined
  const variable = path ? `${name}_FILE` : name
  try {
    if (path && env[name]) throw new StartupFault([`and ${name} must not both be set`])
    if (!path && !env[name]) throw new StartupFault(['is required'])
    const text = path ? readText(path) : `${env[name]}`
    if (text instanceof StartupFault) throw text
    return { value: parse(text), text, path }
  } catch (error) {
    faults.push(...(error as StartupFault).faults.map((fault) => `${variable} ${fault}`))
    return undefined
  }
}

/** Returns the text of a regular file, or why there is none. It follows links, and waits for no writer. */
function readText(path: string): string | StartupFault {
  let file: number | undefined
  try {
    // A pipe can be read only once, and to open a device can do something to it.
    if (!statSync(path).isFile()) return irregular
    // The file may have been replaced since. Without O_NONBLOCK, to open a pipe that has no writer
    // would block the process for ever.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    return fstatSync(file).isFile() ? readFileSync(file, 'utf8').trim() : irregular
  } catch (error) {
    return new StartupFault([
      `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`
    ])
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

const irregular = new StartupFault([
  'must name a regular file, not a pipe, a socket, a directory or a device'
])

const lookEveryMs = 250
/** A text is used when the file has had it for this time: half of a secret may be valid, too. */
const settledMs = 500

/**
 * Follows the file that the setting `name` names, if any, until the application closes. Passes each new text to `use`, which
 * throws a StartupFault to keep the earlier text, and ends when the text is in use or no longer the newest. Returns a function
 * that tells whether the newest text is not in use.
 */
export function followSecret(
  name: string,
  { text: first, path }: Secret<unknown>,
  app: FastifyInstance,
  use: (text: string, isNewest: () => boolean) => void | Promise<void>
): () => boolean {
  if (!path) return () => false
  /** What the last look at the file has found. */
  let seen: string | StartupFault = first
  let newest: string | undefined = first
  let isBroken = false
  const adopt = async (found: string | StartupFault) => {
    const text = String(found)
    const isNewest = () => text === newest
    if (isNewest()) return
    newest = text
    isBroken = true
    try {
      if (found instanceof StartupFault) throw found
      await use(found, isNewest)
      if (!isNewest()) return
      isBroken = false
      app.log.info(`${name} was read`)
    } catch (error) {
      const { faults } = error as StartupFault
      if (isNewest()) app.log.error({ faults }, `${name} is broken; keeping the earlier text`)
    }
  }
  const look = () => {
    const before = seen
    seen = readText(path)
    if (String(seen) === String(before)) void adopt(seen)
    else timer.refresh()
  }
  // At first for what has changed since the start.
  const timer = setTimeout(look, settledMs).unref()
  watchFile(path, { interval: lookEveryMs, persistent: false }, () => {
    seen = readText(path)
    timer.refresh()
  })
  app.addHook('onClose', async () => {
    unwatchFile(path)
    clearTimeout(timer)
    newest = undefined
  })
  return () => isBroken
}
