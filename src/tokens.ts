/** The bearer tokens, as they are written in the configuration or in a file. */
import { hash } from 'node:crypto'
import { StartupFault } from './startup-fault.ts'

/**
 * Returns the caller of a bearer token, if it is valid now. It is awaited: another kind of token may
 * ask elsewhere, and throw the Failure of a token that is not valid.
 */
export type FindCaller = (token: string) => string | undefined | Promise<string | undefined>

/** The callers in a list. Those of an identity provider may have more characters. */
const listedName = /^(?!sha256$)[A-Za-z0-9._-]{1,64}$/

/**
 * Reads a list of entries `secret`, `name:secret` or `name:sha256:<64 hex digits>`, separated by commas or new lines.
 * Throws a StartupFault with a readable line for each entry that breaks a rule; no line holds a secret.
 */
export function parseTokens(text: string): FindCaller {
  /** The SHA-256 digest (hex) of each secret, with its caller. */
  const tokens = new Map<string, string>()
  const entries = text.split(/[,\n]/).flatMap((piece) => piece.trim() || [])
  const faults = entries.flatMap((entry, index) => {
    const fault = addEntry(tokens, entry)
    return fault ? `entry ${index + 1} ${fault}` : []
  })
  if (entries.length === 0) faults.push('must hold at least one token')
  if (faults.length > 0) throw new StartupFault(faults)
  /** Of the secrets that were found valid, in clear text: to hash one again costs as much as its log line. */
  const known = new Map<string, string>()
  // The time reveals nothing: V8 compares texts only if their hashes, which a random number of this process decides, are equal.
  return (token) => {
    const caller = known.get(token) ?? tokens.get(hash('sha256', token))
    if (caller !== undefined) known.set(token, caller)
    return caller
  }
}

/** Adds the token of an entry, or returns what is wrong with it. */
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
    // A script gets it that hashes an unset variable.
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
