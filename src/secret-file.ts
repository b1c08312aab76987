/** A file that holds a secret, read again whenever it changes. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'

/** A file as it was when the settings were read. */
export interface SecretFile {
  readonly path: string
  /** Of its text, by `digestOf`. */
  readonly digest: string
}

/** What is wrong with a text, if anything, without its secrets; and what the log says about a good one. */
interface Judgement {
  faults: readonly string[]
  facts?: object
}

/** A change takes effect within two of these. */
const pollMs = 1_000

/** Returns the SHA-256 digest of a file's text, which is kept in place of the text with its secrets. */
export const digestOf = (text: string) => hash('sha256', text)

/**
 * Follows the file that the setting `name` names, and hands each new text to `take`, which uses it unless it is broken.
 * The whole text is read every second. Unlike events and modification times, that notices a write in place, a rename and
 * a swapped link on every file system. A text takes effect when two readings in a row agree, since half of a secret can
 * be a valid one. A broken file is logged once for each of its texts. Without a file, nothing is followed.
 */
export function watchSecretFile(
  name: string,
  file: SecretFile | undefined,
  log: FastifyBaseLogger,
  take: (text: string) => Judgement
) {
  if (file === undefined) {
    const reload = async () => log.info(`there is no ${name} to read again`)
    return { isBroken: () => false, reload, close() {} }
  }
  const { path, digest } = file
  let judged = digest
  let latest = digest
  let isBroken = false
  let isClosed = false
  let timer = setTimeout(poll, pollMs).unref()

  async function poll() {
    const read = await readText(path)
    if (read.digest !== judged && read.digest === latest) judge(read)
    latest = read.digest
    if (!isClosed) timer = setTimeout(poll, pollMs).unref()
  }

  function judge({ digest, text, fault }: Reading) {
    judged = digest
    const { faults, facts }: Judgement = fault === undefined ? take(text) : { faults: [fault] }
    isBroken = faults.length > 0
    if (isBroken) log.error({ faults }, `${name} is broken: what it held before stays in use`)
    else log.info({ ...facts }, `${name} was read`)
  }

  return {
    /** Whether the newest text is broken, so that an earlier one stays in use. */
    isBroken: () => isBroken,
    /** Reads the file now, and uses what it holds. Never rejects. */
    async reload() {
      const read = await readText(path)
      latest = read.digest
      judge(read)
    },
    /** Stops watching. */
    close() {
      isClosed = true
      clearTimeout(timer)
    }
  }
}

interface Reading {
  digest: string
  text: string
  fault?: string
}

async function readText(path: string): Promise<Reading> {
  try {
    const text = (await readFile(path, 'utf8')).trim()
    return { digest: digestOf(text), text }
  } catch (error) {
    const fault = `cannot be read (${(error as NodeJS.ErrnoException).code})`
    return { digest: fault, text: '', fault }
  }
}
