/** Secrets: read from a variable or from the file that a variable names, and read again whenever that file changes. */
import { readFileSync, unwatchFile, watchFile } from 'node:fs'
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
    return { value: parse(text), text, path }
  } catch (error) {
    faults.push(...(error as StartupFault).faults.map((fault) => `${variable} ${fault}`))
    return undefined
  }
}

/** Returns the text of a file. Throws a StartupFault if it cannot be read. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw new StartupFault([`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`])
  }
}

const lookEveryMs = 250
/** The file is read when it has not changed for this time: half of a secret may be valid, too. */
const settledMs = 500

/**
 * Follows the file that the setting `name` names, if any, until the application closes. Passes each new text to `use`, which
 * throws a StartupFault to keep the earlier text. Returns a function that tells whether the file is broken now.
 */
export function followSecret(
  name: string,
  { text: first, path }: Secret<unknown>,
  app: FastifyInstance,
  use: (text: string) => void
): () => boolean {
  if (!path) return () => false
  let newest = first
  let isBroken = false
  const read = () => {
    try {
      const text = readText(path)
      if (text === newest && !isBroken) return
      newest = text
      use(text)
      isBroken = false
      app.log.info(`${name} was read`)
    } catch (error) {
      isBroken = true
      app.log.error({ faults: (error as StartupFault).faults }, `${name} is broken; keeping the earlier text`)
    }
  }

  // At first for what has changed since the start.
  const timer = setTimeout(read, settledMs).unref()
  watchFile(path, { interval: lookEveryMs, persistent: false }, () => timer.refresh())
  app.addHook('onClose', async () => {
    unwatchFile(path)
    clearTimeout(timer)
  })
  return () => isBroken
}
