/** The database URL of a file, read again whenever it changes. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { type FollowedFile, type SecretFile, watchSecretFile } from '../secret-file.ts'
import { type ConnectionOptions, parseDatabaseUrl } from './url.ts'
import { type Check, findMissing } from './wait-for-database.ts'

/** A file with a database URL that is watched. */
interface FollowedUrl extends FollowedFile {
  /** The options of the last URL that has worked. */
  current(): ConnectionOptions
}

interface Options {
  file: SecretFile
  /** What the file held at first. */
  connection: ConnectionOptions
  /** What a database must pass before its URL is used. */
  checks: Check[]
  log: FastifyBaseLogger
  /** Called with the options of each URL that works. */
  onChange(connection: ConnectionOptions): void
}

const tryMs = 5_000
/** Not shorter, since PostgreSQL logs each try with a wrong password. */
const pauseMs = 1_000

/**
 * Watches the file. A new URL is used once it connects and the database passes the checks. So a password may change in
 * the file or in the database first, and a wrong one never replaces a right one.
 */
export function watchDatabaseUrl({ file, connection, checks, log, onChange }: Options): FollowedUrl {
  let current = connection
  let newest = connection

  const followed = watchSecretFile('DATABASE_URL_FILE', file, log, (text) => {
    try {
      newest = parseDatabaseUrl(text)
    } catch (error) {
      return { faults: [(error as Error).message] }
    }
    void tryOut(newest)
    return { faults: [] }
  })

  async function tryOut(next: ConnectionOptions) {
    let known: string | undefined
    for (;;) {
      const missing = await findMissing(next, tryMs, checks).catch(({ message }) => message)
      if (next !== newest) return
      if (missing === undefined) break
      if (missing !== known) log.warn({ missing }, 'DATABASE_URL_FILE has a URL that does not work yet')
      known = missing
      await sleep(pauseMs, undefined, { ref: false })
    }
    current = next
    onChange(next)
    log.info('the connections are replaced by those of DATABASE_URL_FILE')
  }

  return {
    ...followed,
    current: () => current,
    isBroken: () => followed.isBroken() || newest !== current,
    close() {
      followed.close()
      newest = current
    }
  }
}
