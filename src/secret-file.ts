/** A file that holds a secret, read again whenever it changes. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'
import { StartupFault } from './failures/failure.ts'

/** A file as it was when the settings were read. */
export interface SecretFile {
  readonly path: string
  /** The digest of its text (`digestOf`). */
  readonly digest: string
}

/** A change takes effect within two of these. */
const pollMs = 1_000

/** Returns the SHA-256 digest of a file's text, which is kept in place of the text with its secrets. */
export const digestOf = (text: string) => hash('sha256', text)

/**
 * Watches the file that the setting `name` names, if any, and passes each new text to `use`, which returns what to log
 * about it. If the text is broken, `use` throws a StartupFault, and the earlier text stays in use.
 * The whole file is read every second. Unlike events and modification times, this notices a write in place, a rename and
 * a swapped link on every file system. A text takes effect when two reads agree: half of a secret can be valid, too.
 */
export function watchSecretFile(
  name: string,
  file: SecretFile | undefined,
  log: FastifyBaseLogger,
  use: (text: string) => object
) {
  if (file === undefined) {
    const reload = async () => log.info(`${name} is not set; nothing to reload`)
    return { isBroken: () => false, reload, close() {} }
  }
  const { path, digest } = file
  let judged = digest
  let latest = digest
  let isBroken = false
  let isClosed = false
  let timer = setTimeout(poll, pollMs).unref()

  async function poll() {
    await read((digest) => digest !== judged && digest === latest)
    if (!isClosed) timer = setTimeout(poll, pollMs).unref()
  }

  async function read(isDue: (digest: string) => boolean) {
    const text = await readFile(path, 'utf8').catch(
      ({ code }) => new StartupFault([`cannot be read (${code})`])
    )
    const found = typeof text === 'string' ? digestOf(text.trim()) : text.message
    const isJudged = isDue(found) && !isClosed
    latest = found
    if (!isJudged) return
    judged = found
    try {
      if (typeof text !== 'string') throw text
      log.info(use(text.trim()), `${name} was read`)
      isBroken = false
    } catch (error) {
      isBroken = true
      const { faults } = error as StartupFault
      log.error({ faults }, `${name} is broken; keeping the earlier text`)
    }
  }

  return {
    /** Whether the newest text is broken, so that an earlier one stays in use. */
    isBroken: () => isBroken,
    /** Reads the file now, and uses what it holds. Never rejects. */
    reload: () => read(() => true),
    /** Stops watching, and ignores a read in progress. */
    close() {
      isClosed = true
      clearTimeout(timer)
    }
  }
}
