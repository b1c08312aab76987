/** The access tokens of a file, read anew whenever it changes. */
import type { FastifyBaseLogger } from 'fastify'
import { type FollowedFile, type SecretFile, watchSecretFile } from '../secret-file.ts'
import { parseTokens, type Tokens } from './tokens.ts'

export type { SecretFile as TokenFile }

/** A file of tokens that is followed. */
export interface FollowedTokens extends FollowedFile {
  /** The tokens of the last good text. */
  current(): Tokens
}

/** Follows the file from `tokens`, which it held at first. A broken file leaves the tokens as they were. */
export function watchTokenFile(file: SecretFile, tokens: Tokens, log: FastifyBaseLogger): FollowedTokens {
  let current = tokens
  const followed = watchSecretFile('AUTH_TOKENS_FILE', file, log, (text) => {
    const { tokens, faults } = parseTokens(text)
    if (faults.length === 0) current = tokens
    return { faults, facts: { tokens: tokens.size } }
  })
  return { ...followed, current: () => current }
}
