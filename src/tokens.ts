/** The list of bearer tokens, as the configuration or a file has it. */
import { hash } from 'node:crypto'
import { StartupFault } from './startup-fault.ts'

/**
 * Returns the caller of a bearer token, or undefined if the token is not valid now. The result is
 * awaited: for other kinds of tokens, a function may have to ask elsewhere, and may throw the
 * Failure of a token that is not valid. `connection` is the same object for all requests of one
 * connection.
 */
export type FindCaller = (
  token: string,
  connection: object
) => string | undefined | Promise<string | undefined>

/** Returns the caller of a token of the list, or undefined if the list does not have it. */
export type FindListed = (token: string) => string | undefined

/**
 * The form of a caller's name in the list. The names that an identity provider gives may have more
 * characters.
 */
const listedName = /^(?!sha256$)[A-Za-z0-9._-]{1,64}$/

/**
 * Reads a list of entries, separated by commas or new lines. An entry is `secret`, `name:secret` or
 * `name:sha256:<64 hex digits>`. Throws a StartupFault with a readable line for each entry that
 * breaks a rule. No line holds a secret.
 */
export function parseTokens(text: string): FindListed {
  /** The callers, by the SHA-256 digests (hex) of their secrets. */
  const tokens = new Map<string, string>()
  const entries = text.split(/[,\n]/).flatMap((piece) => piece.trim() || [])
  const faults = entries.flatMap((entry, index) => {
    const fault = addEntry(tokens, entry)
    return fault ? `entry ${index + 1} ${fault}` : []
  })
  if (entries.length === 0) faults.push('must hold at least one token')
  if (faults.length > 0) throw new StartupFault(faults)
  /**
   * The callers by their secrets in clear text, for the secrets that have been used. To hash a
   * secret for each request would cost as much as the request's log line.
   */
  const known = new Map<string, string>()
  // The time of this look-up tells an attacker nothing. V8 compares two texts only if their hashes
  // are equal, and these depend on a random number of this process.
  return (token) => {
    const caller = known.get(token) ?? tokens.get(hash('sha256', token))
    if (caller !== undefined) known.set(token, caller)
    return caller
  }
}

/** Adds the token of an entry. Returns what is wrong with the entry, if anything. */
function addEntry(tokens: Map<string, string>, entry: string): string | undefined {
  const colon = entry.indexOf(':')
  const caller = colon === -1 ? 'default' : entry.slice(0, colon)
  const secret = entry.slice(colon + 1)
  let digest = hash('sha256', secret)
  if (!listedName.test(caller))
    return 'has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
  if (colon !== -1 && secret.startsWith('sha256:')) {
    digest = secret.slice('sha256:'.length).toLowerCase()
    if (!/^[0-9a-f]{64}$/.test(digest)) return 'must have 64 hex digits after "sha256:"'
    // A script that hashes an unset variable makes this digest.
    if (digest === hash('sha256', '')) return 'has the digest of an empty secret'
  } else if (secret.length < 16 || !isTokenShaped(secret)) {
    return 'must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'
  }
  if ((tokens.get(digest) ?? caller) !== caller) return 'repeats the secret of another name'
  tokens.set(digest, caller)
  return undefined
}

/** Returns whether a text has the form of a bearer token (RFC 6750, section 2.1). */
export const isTokenShaped = (text: string): boolean => /^[A-Za-z0-9\-._~+/]+=*$/.test(text)
