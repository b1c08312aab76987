/** How a database URL becomes the driver's options. */
import { parse, toClientConfig } from 'pg-connection-string'

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full']

/** Where and how to connect: what pg takes as a client's options. */
export type ConnectionOptions = ReturnType<typeof toClientConfig>

/**
 * Reads a `postgres://` or `postgresql://` URL. `sslmode` means what the PostgreSQL manual says (libpq, "SSL Support"):
 * `require` encrypts, `verify-ca` also checks the certificate's issuer, `verify-full` its host name too.
 * Throws an Error whose message names the rule that is broken and never holds the password.
 */
export function parseDatabaseUrl(url: string): ConnectionOptions {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) throw new Error(form)
  const { searchParams } = new URL(url)
  const mode = searchParams.getAll('sslmode').at(-1) ?? 'disable'
  if (!sslModes.includes(mode)) throw new Error(`must have an sslmode of ${sslModes.join(', ')}`)
  if (mode === 'verify-ca' && !searchParams.get('sslrootcert')) {
    throw new Error('must have an sslrootcert for sslmode verify-ca')
  }
  try {
    return toClientConfig(parse(url, { useLibpqCompat: true }))
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException
    throw new Error(syscall === undefined ? form : `names a file that cannot be read: ${message}`)
  }
}
