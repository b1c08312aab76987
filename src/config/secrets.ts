/** The secret settings: each comes from the environment or a file, and never appears in the text of a fault. */
import { readFileSync } from 'node:fs'
import { StartupFault } from '../failures/failure.ts'
import { digestOf, type SecretFile } from '../secret-file.ts'
import type { Environment } from './settings.ts'

/** The variables that hold secrets, as docs/configuration.md has them. */
export const secrets = {
  DATABASE_URL: {
    default: 'required',
    description:
      'a URL such as postgres://user:password@host:5432/database, or with several hosts, host1:5432,host2:5432; with ?sslmode= disable, require, verify-ca or verify-full, and sslrootcert= as in the PostgreSQL manual, and target_session_attrs= any or, the only one for several hosts, read-write',
    purpose: 'The database. Its user has the rights that ops/postgresql/roles.sql gives to `service`.',
    example: 'postgres://user:password@127.0.0.1:5432/plants'
  },
  MIGRATION_DATABASE_URL: {
    default: 'DATABASE_URL',
    description: 'a URL as in DATABASE_URL',
    purpose: 'The database for migrations, if they need another user or must bypass a pooler.',
    example: ''
  },
  AUTH_TOKENS: {
    default: 'required',
    description:
      'entries secret, name:secret or name:sha256:<64 hex digits>, separated by commas (in a file, by new lines too); a secret has 16 or more letters, digits or -._~+/',
    purpose: 'Access tokens. Several may share a name. `npm run token -- NAME` makes one.',
    example: 'name:sha256:<64 hex digits>'
  }
} as const

/** What a fault leaves: nobody asks for the value. */
const none = { value: undefined as never }

/**
 * Reads the first of these secrets that is set as NAME, or in the file that NAME_FILE names; one of them is required.
 * Adds a line to `faults` for each fault, also for each that `parse` throws.
 */
export function readSecret<T>(
  env: Environment,
  names: readonly (keyof typeof secrets)[],
  parse: (text: string) => T,
  faults: string[]
): { value: T; file?: SecretFile | undefined } {
  for (const name of names) {
    const path = env[`${name}_FILE`]
    let text = env[name] ?? ''
    if (text && path) faults.push(`${name} and ${name}_FILE must not both be set`)
    if (!text && !path) continue
    try {
      if (path) text = readFileSync(path, 'utf8').trim()
      return { value: parse(text), file: path ? { path, digest: digestOf(text) } : undefined }
    } catch (error) {
      if (error instanceof StartupFault) faults.push(...error.faults.map((fault) => `${name} ${fault}`))
      else
        faults.push(
          `${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`
        )
      return none
    }
  }
  faults.push(`${names.at(-1)} is required`)
  return none
}
