/** How a database URL becomes the driver's options. */
import { parse, toClientConfig } from 'pg-connection-string'
import { StartupFault } from '../failures/failure.ts'

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const listForm = 'must list its hosts before the path, such as host1:5432,host2:5432'

/** The values that the service accepts for parameters of libpq; the first is the default. */
const choices: Record<string, string[]> = {
  sslmode: ['disable', 'require', 'verify-ca', 'verify-full'],
  target_session_attrs: ['any', 'read-write'],
  load_balance_hosts: ['disable']
}

/** Where and how to connect: pg's options for a client, and those of database/hosts for several hosts. */
export type ConnectionOptions = ReturnType<typeof toClientConfig> & {
  /** In the order in which they are tried; none where there is only one. */
  readonly hosts?: readonly { host?: string | undefined; port?: number | undefined }[]
  /** `read-write` accepts only a server that accepts writes. */
  readonly target_session_attrs?: string
}

/**
 * Reads a `postgres://` or `postgresql://` URL. `sslmode` means what the PostgreSQL manual says (libpq, "SSL Support"):
 * `require` encrypts, `verify-ca` also checks the certificate's issuer, `verify-full` its host name too. Several hosts,
 * `target_session_attrs` and `load_balance_hosts` are libpq's, too ("Specifying Multiple Hosts"), but of several hosts,
 * only one that accepts writes is used.
 * Throws a StartupFault that names the broken rule and never holds the password.
 */
export function parseDatabaseUrl(url: string): ConnectionOptions {
  const [, start = '', list = '', rest = ''] = /^([^:]*:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  if (!list.includes(',')) return parseOne(url)
  const names = list.split(',')
  if (names.includes('') || /[?&](host|port)=/.test(rest)) throw new StartupFault([listForm])
  const target_session_attrs = 'read-write'
  const all = names.map((name) =>
    parseOne(start + name + rest, { ...choices, target_session_attrs: [target_session_attrs] })
  )
  return { ...all[0], target_session_attrs, hosts: all.map(({ host, port = 5432 }) => ({ host, port })) }
}

function parseOne(url: string, allowed = choices): ConnectionOptions {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) throw new StartupFault([form])
  const { searchParams } = new URL(url)
  for (const [name, values] of Object.entries(allowed)) {
    const value = searchParams.getAll(name).at(-1) ?? values[0]
    if (!values.includes(String(value)))
      throw new StartupFault([`must have as its ${name} one of ${values.join(', ')}`])
  }
  if (searchParams.getAll('sslmode').at(-1) === 'verify-ca' && !searchParams.get('sslrootcert')) {
    throw new StartupFault(['must have an sslrootcert for sslmode verify-ca'])
  }
  if (searchParams.get('host')?.includes(',')) throw new StartupFault([listForm])
  try {
    return toClientConfig(parse(url, { useLibpqCompat: true }))
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException
    throw new StartupFault([syscall === undefined ? form : `names a file that cannot be read: ${message}`])
  }
}
