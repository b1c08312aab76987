/**
 * Secrets. A secret is read from a variable, or from the file that a variable names. Such a file is
 * read again whenever it changes.
 */
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

/** A secret: what its text means, the text, and the path of the file that it came from, if any. */
export interface Secret<T> {
  readonly value: T
  readonly text: string
  readonly path: string | undefined
}

/**
 * Reads the secret from the variable `name`, or from the file that the variable with the suffix
 * _FILE names. Returns undefined and adds a line to `faults` if neither is set, or if the text
 * cannot be read or parsed: `parse` throws a StartupFault. No line holds a secret.
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

/**
 * Returns the text of a regular file, or the fault if it cannot be read. It follows links, and does
 * not wait for a pipe's writer.
 */
function readText(path: string): string | StartupFault {
  let file: number | undefined
  try {
    // Check the kind before opening the file. A pipe can be read only once, and opening a device
    // can change its state.
    if (!statSync(path).isFile()) return irregular
    // The file may have been replaced since the check. Without O_NONBLOCK, opening a pipe that has
    // no writer would block the process for ever.
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
/**
 * A new text is used once the file has kept it for this time. While the file is being written, half
 * of a secret could be a valid one.
 */
const settledMs = 500

/**
 * Watches the file of the secret `name`, if there is one, until the application closes. Passes
 * each new text to `use`. If `use` throws a StartupFault, the earlier text stays in use. It may
 * return a promise, which must resolve once the text is in use or is no longer the newest one.
 * Returns a function that says whether the newest text is not in use.
 */
export function followSecret(
  name: string,
  secret: Secret<unknown> | undefined,
  app: FastifyInstance,
  use: (text: string, isNewest: () => boolean) => void | Promise<void>
): () => boolean {
  if (!secret?.path) return () => false
  const { text: first, path } = secret
  /** What the file had when it was last read. */
  let seen: string | StartupFault = first
  let newest: string | undefined = first
  let isBroken = false
  // A fault takes the place of the text, so that it is reported once, and a file that becomes
  // readable again is a new text.
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
  // The first run finds what has changed since the start.
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
