/** Secrets: read from a variable or from the file that a variable names, and read again whenever that file changes. */
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import { StartupFault } from './startup-fault.ts'

/** What a secret says, and the file that it came from, if it came from one, with its text at the start. */
export interface Secret<T> {
  readonly value: T
  readonly file: { readonly path: string; readonly text: string } | undefined
}

/** Returns the first of these names that is set, as NAME or by the file that NAME_FILE names. */
export const findSecret = (env: NodeJS.ProcessEnv, names: readonly string[]) =>
  names.find((name) => env[name] || env[`${name}_FILE`])

/**
 * Reads the first of these secrets that is set; one is required. Returns undefined, and adds a line to `faults`, if none is
 * set or its text cannot be read or parsed: `parse` throws a StartupFault. No line holds a secret.
 */
export function readSecret<T>(
  env: NodeJS.ProcessEnv,
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
  if (env[name] && path) faults.push(`${name} and ${name}_FILE must not both be set`)
  const text = path ? readText(path) : `${env[name]}`
  try {
    if (text instanceof StartupFault) throw text
    return { value: parse(text), file: path ? { path, text } : undefined }
  } catch (error) {
    const variable = path ? `${name}_FILE` : name
    faults.push(...(error as StartupFault).faults.map((fault) => `${variable} ${fault}`))
    return undefined
  }
}

/** Returns the text of a file, or why it cannot be read. */
function readText(path: string): string | StartupFault {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    return new StartupFault([`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`])
  }
}

/** How often the file is read. A text takes effect once two readings agree: half of a secret may be valid, too. */
const readEveryMs = 250

/**
 * Follows the file that the setting `name` names, if any, until the application closes. Passes each new text to `use`, which
 * throws a StartupFault to keep the earlier text. Returns a function that tells whether the file is broken now.
 */
export function followSecret(
  name: string,
  { file }: Secret<unknown>,
  app: FastifyInstance,
  use: (text: string) => void
): () => boolean {
  /** What was read last; what was judged last; and whether that is broken, so that an earlier text stays in use. */
  let seen = file?.text
  let judged = file?.text
  let isBroken = false

  function read(path: string) {
    const found = readText(path)
    const text = String(found)
    const isNew = text === seen && text !== judged
    seen = text
    if (!isNew) return
    judged = text
    try {
      if (found instanceof StartupFault) throw found
      use(found)
      isBroken = false
      app.log.info(`${name} was read`)
    } catch (error) {
      isBroken = true
      app.log.error({ faults: (error as StartupFault).faults }, `${name} is broken; keeping the earlier text`)
    }
  }

  const timer = file && setInterval(() => read(file.path), readEveryMs).unref()
  app.addHook('onClose', async () => clearInterval(timer))
  return () => isBroken
}
