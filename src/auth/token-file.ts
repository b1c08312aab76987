/** The access tokens of a file, read anew whenever it changes. */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'
import { parseTokens, type Tokens } from './tokens.ts'

/** A file of tokens as it was when the settings were read. */
export interface TokenFile {
  readonly path: string
  /** Of its text, by `digestOf`. */
  readonly digest: string
}

/** A file of tokens that is followed. */
export interface FollowedTokens {
  /** The tokens of the last good text. */
  current(): Tokens
  /** Whether the text that was read last is broken, so that the tokens are those of one before. */
  isBroken(): boolean
  /** Reads the file now, and takes what it holds unless that is broken. Never rejects. */
  reload(): Promise<void>
  /** Looks at the file no more. */
  close(): void
}

/** A change counts within two of these. */
const pollMs = 1_000

/** Gives the SHA-256 digest of a file's text; the text holds secrets and is not kept. */
export const digestOf = (text: string) => hash('sha256', text)

/**
 * Follows the file from `tokens`, which it held at first. Its whole text is read every second: that sees a write in
 * place, a rename and a swapped link alike, on every file system, which neither events nor times of change do. A text
 * counts when two readings in a row agree, since half of a list can be a good list, and would revoke the other half.
 * A broken file is logged once for each of its texts and leaves the tokens as they were.
 */
export function watchTokenFile(
  { path, digest }: TokenFile,
  tokens: Tokens,
  log: FastifyBaseLogger
): FollowedTokens {
  let current = tokens
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
    const { tokens, faults } = fault === undefined ? parseTokens(text) : { tokens: current, faults: [fault] }
    isBroken = faults.length > 0
    if (isBroken) log.error({ faults }, 'AUTH_TOKENS_FILE is broken: the tokens stay as they were')
    else {
      current = tokens
      log.info({ tokens: tokens.size }, 'AUTH_TOKENS_FILE was read')
    }
  }

  return {
    current: () => current,
    isBroken: () => isBroken,
    async reload() {
      const read = await readText(path)
      latest = read.digest
      judge(read)
    },
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
