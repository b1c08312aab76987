/** The secret settings: each comes from the environment or a file, and never appears in the text of a fault. */
import { readFileSync } from 'node:fs'
import { parseTokens, type Tokens } from '../auth/tokens.ts'
import { type ConnectionOptions, parseDatabaseUrl } from '../database/url.ts'
import { digestOf } from '../secret-file.ts'

/** The process's environment variables. */
export type Environment = Record<string, string | undefined>

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

type SecretName = keyof typeof secrets

/** Reads the first of these secrets that is set as NAME, or in the file that NAME_FILE names; one of them is required. */
function readSecret(env: Environment, names: SecretName[], faults: string[]) {
  for (const name of names) {
    const text = env[name]
    const path = env[`${name}_FILE`]
    if (text && path) faults.push(`${name} and ${name}_FILE must not both be set`)
    if (!path && text) return { name, text, file: undefined }
    if (!path) continue
    try {
      const text = readFileSync(path, 'utf8').trim()
      return { name, text, file: { path, digest: digestOf(text) } }
    } catch (error) {
      faults.push(`${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
      return undefined
    }
  }
  faults.push(`${names.at(-1)} is required`)
  return undefined
}

/** Reads a database's URL from the first of the variables that is set, or from its file; adds a line to `faults` for each bad one. */
export function readDatabase(env: Environment, names: SecretName[], faults: string[]) {
  const secret = readSecret(env, names, faults)
  let database: ConnectionOptions = {}
  try {
    if (secret) database = parseDatabaseUrl(secret.text)
  } catch (error) {
    faults.push(`${secret?.name} ${(error as Error).message}`)
  }
  return { database, databaseFile: secret?.file }
}

/** Reads AUTH_TOKENS, or its file; adds a line to `faults` for each bad entry. */
export function readTokens(env: Environment, faults: string[]) {
  const secret = readSecret(env, ['AUTH_TOKENS'], faults)
  const parsed = secret && parseTokens(secret.text)
  for (const fault of parsed?.faults ?? []) faults.push(`AUTH_TOKENS ${fault}`)
  const tokens: Tokens = parsed?.tokens ?? new Map()
  return { tokens, tokenFile: secret?.file }
}
