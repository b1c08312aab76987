/** The settings that are secret: each from the environment or from a file, and never in a fault's text. */
import { readFileSync } from 'node:fs'
import { digestOf, type TokenFile } from '../auth/token-file.ts'
import { parseTokens, type Tokens } from '../auth/tokens.ts'
import { type ConnectionOptions, parseDatabaseUrl } from '../database/url.ts'

/** The process's environment variables. */
export type Environment = Record<string, string | undefined>

/** The variables that hold secrets, as docs/configuration.md has them. */
export const secrets = {
  DATABASE_URL: {
    default: 'required',
    description:
      'a URL such as postgres://user:password@host:5432/database, with ?sslmode= disable, require, verify-ca or verify-full and sslrootcert= as in the PostgreSQL manual',
    purpose: 'The database. Its user needs `select`, `insert` and `update` on `plants`.',
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

/** A secret stands in NAME or in the file that NAME_FILE names. */
function readSecret(env: Environment, name: SecretName, faults: string[]): string | undefined {
  const path = env[`${name}_FILE`]
  if (env[name] && path) faults.push(`${name} and ${name}_FILE must not both be set`)
  if (!path) return env[name] || undefined
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    faults.push(`${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
    return undefined
  }
}

/** Reads a database's URL from the first of the variables that is set; adds a line to `faults` for each that is bad. */
export function readDatabase(env: Environment, names: SecretName[], faults: string[]): ConnectionOptions {
  const before = faults.length
  for (const name of names) {
    const url = readSecret(env, name, faults)
    if (url === undefined) continue
    try {
      return parseDatabaseUrl(url)
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`)
      return {}
    }
  }
  if (faults.length === before) faults.push(`${names.at(-1)} is required`)
  return {}
}

/** Reads AUTH_TOKENS, and which file they came from, if from one; adds a line to `faults` for each that is bad. */
export function readTokens(
  env: Environment,
  faults: string[]
): { tokens: Tokens; tokenFile: TokenFile | undefined } {
  const before = faults.length
  const text = readSecret(env, 'AUTH_TOKENS', faults)
  if (text === undefined) {
    if (faults.length === before) faults.push('AUTH_TOKENS is required')
    return { tokens: new Map(), tokenFile: undefined }
  }
  const { tokens, faults: tokenFaults } = parseTokens(text)
  faults.push(...tokenFaults.map((fault) => `AUTH_TOKENS ${fault}`))
  const path = env.AUTH_TOKENS_FILE
  return { tokens, tokenFile: path ? { path, digest: digestOf(text) } : undefined }
}
