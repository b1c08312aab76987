/** A file that holds a secret, read again whenever it changes. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'
import { StartupFault } from './failures/startup-fault.ts'

/** A file as it was when the settings were read. */
export interface SecretFile {
  readonly path: string
  /** The digest of its text (`digestOf`). */
  readonly digest: string
}

/** How often the file is read. A change takes effect within two of these periods. */
const pollMs = 1_000

/** Returns the SHA-256 digest of a file's text. It is kept in place of the text, which holds secrets. */
export const digestOf = (text: string) => hash('sha256', text)

/**
 * Watches the file that the setting `name` names, if any, and passes each new text to `use`, which returns what to log
 * about it. If the text is broken, `use` throws a StartupFault, and the earlier text stays in use.
 *
 * Reads the whole file every second. Unlike events and modification times, this notices a write in place, a rename and a
 * swapped link on every file system. A text takes effect once two reads agree: half of a secret may be valid, too.
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
  // Versions of the file: the digest of its text, or the code of the error with which it cannot be read.
  let judged = digest
  let latest = digest
  let isBroken = false
  let isClosed = false
  let timer = setTimeout(poll, pollMs).unref()

  async function poll() {
    await read((version) => version !== judged && version === latest)
    if (!isClosed) timer = setTimeout(poll, pollMs).unref()
  }

  /** Reads the file, and judges its text if its version is due. */
  async function read(isDue: (version: string) => boolean) {
    const { text, version } = await readFile(path, 'utf8').then(
      (content) => ({ text: content.trim(), version: digestOf(content.trim()) }),
      ({ code }) => ({ text: undefined, version: String(code) })
    )
    const mustJudge = isDue(version) && !isClosed
    latest = version
    if (!mustJudge) return
    judged = version
    try {
      if (text === undefined) throw new StartupFault([`cannot be read (${version})`])
      log.info(use(text), `${name} was read`)
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
