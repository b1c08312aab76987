/** How a database URL becomes the driver's options. Each of its parameters is honoured or refused by name. */
import { readFileSync } from 'node:fs'
import { getCACertificates } from 'node:tls'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'

/** Where and how to open sessions: the driver's options for a client, and those of hosts.ts. */
export interface DatabaseOptions extends pg.ClientConfig {
  /** All hosts, in the order in which they are tried; absent where there is only one. */
  readonly hosts?: readonly { host: string; port: number }[]
  /** `read-write` accepts only a server that accepts writes. */
  readonly target_session_attrs?: string | undefined
  /** Refuses a server that has not proved, by SCRAM-SHA-256-PLUS, that it is the other end of this TLS session. */
  readonly requiresChannelBinding?: boolean
  /** How long each host may take to connect, in ms; 0 for the pool's limit. */
  readonly connectTimeoutMs?: number
  /** A host beyond this machine that is reached without TLS, where the URL does not say that it should be. */
  readonly exposedHost?: string | undefined
}

/** What a value must match, and the rule that completes "must set NAME to …". */
type Parameter = readonly [pattern: RegExp, rule: string]

const oneOf = (...values: string[]): Parameter => [
  new RegExp(`^(${values.join('|')})$`),
  `${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`
]
const text = (rule: string, pattern = /^[^\0]+$/s): Parameter => [pattern, rule]

/** Every parameter that a URL can have, as the PostgreSQL manual spells it (libpq, "Parameter Key Words"). */
export const urlParameters = {
  sslmode: oneOf('disable', 'require', 'verify-ca', 'verify-full'),
  sslrootcert: text('a file, or system'),
  sslcert: text('a file'),
  sslkey: text('a file'),
  channel_binding: oneOf('disable', 'prefer', 'require'),
  host: text('a name, an address, or the directory of a Unix socket', /^[^\s,@]+$/),
  port: text('an integer from 1 to 65535', /^\d{1,5}$/),
  user: text('a name'),
  password: text('a text'),
  application_name: text('a name'),
  connect_timeout: text('an integer from 0 to 999999', /^\d{1,6}$/),
  options: text('a text'),
  target_session_attrs: oneOf('any', 'read-write'),
  // The service does these anyway, and nothing else.
  load_balance_hosts: oneOf('disable'),
  client_encoding: oneOf('UTF8', 'utf8'),
  gssencmode: oneOf('disable'),
  keepalives: oneOf('1'),
  uselibpqcompat: oneOf('true')
} satisfies Record<string, Parameter>

type ParameterName = keyof typeof urlParameters
type Values = Partial<Record<ParameterName, string>>

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const listForm = 'must list its hosts before the path, such as host1:5432,host2:5432'
const escapes =
  'must write @, /, ?, # and & within its user, password and values as %40, %2F, %3F, %23 and %26'

const fault = (rule: string) => new StartupFault([rule])
/** The parts: user and password, hosts, database, parameters, and a fragment, which no URL of a database has. */
const parts = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?(#.*)?$/s

/**
 * Reads a `postgres://` or `postgresql://` URL as libpq does, with the parameters above; of several hosts, only one that
 * accepts writes is used. Throws a StartupFault that names the broken rule and holds no part of the password.
 */
export function parseDatabaseUrl(url: string): DatabaseOptions {
  const match = parts.exec(url.trim())
  if (!match) throw fault(form)
  if (url.includes('%00')) throw fault('must not contain %00') // NUL would end a field of the driver's first message
  const [, credentials, list = '', database = '', query = '', rest] = match
  // An unescaped #, / or ? in the password ends it early. Do not go on: a message would show the rest as a host or a parameter.
  if (rest !== undefined || `${database}?${query}`.includes('@')) throw fault(escapes)
  const values = readParameters(query)
  // Without @, the password would be read as a port.
  if (credentials === undefined && list && values.host) throw fault('must have @ after user and password')
  const [user, password] = split(credentials ?? '', ':')
  const hosts = readHosts(list, values)
  const ssl = readTls(values)
  if (values.channel_binding === 'require' && !ssl)
    throw fault('must set an sslmode for channel_binding=require')
  if (ssl && hosts.some(({ host }) => host.startsWith('/')))
    throw fault('must set sslmode to disable or not at all for a Unix socket, which is never encrypted')
  return {
    user: values.user ?? decode(user),
    password: values.password ?? decode(password),
    database: decode(database),
    ...hosts[0],
    // False, not undefined, for none: with undefined, the driver would ask the environment.
    ssl,
    ...(values.options !== undefined && { options: values.options }),
    application_name: values.application_name ?? 'plant-store',
    enableChannelBinding: /prefer|require/.test(values.channel_binding ?? ''),
    requiresChannelBinding: values.channel_binding === 'require',
    connectTimeoutMs: Number(values.connect_timeout ?? 0) * 1_000,
    target_session_attrs: hosts.length > 1 ? 'read-write' : values.target_session_attrs,
    exposedHost: values.sslmode || ssl ? undefined : hosts.find(({ host }) => !isLocal(host))?.host,
    ...(hosts.length > 1 && { hosts })
  }
}

function readParameters(query: string): Values {
  const values: Values = {}
  for (const pair of query.split('&')) {
    if (pair === '') continue
    if (!pair.includes('=')) throw fault(escapes)
    const [name, value] = split(pair, '=').map(decode) as [string, string]
    // After a password, an unknown name may be a part of it: do not show it.
    if (!Object.hasOwn(urlParameters, name)) throw fault(values.password ? escapes : describeUnknown(name))
    if (name in values) throw fault(`must not set ${name} twice`)
    const [pattern, rule] = urlParameters[name as ParameterName]
    if (!pattern.test(value)) throw fault(`must set ${name} to ${rule}`)
    values[name as ParameterName] = value
  }
  return values
}

/** Returns the hosts, at least one. */
function readHosts(list: string, { host, port, target_session_attrs: attributes }: Values) {
  const names = list.split(',')
  const isList = names.length > 1
  if (host === undefined && list === '')
    throw fault('must name a host, such as db:5432, or ?host= with the directory of a Unix socket')
  if (isList && (names.includes('') || host !== undefined || port !== undefined)) throw fault(listForm)
  if (isList && attributes === 'any') throw fault('must set target_session_attrs to read-write')
  return names.map((name) => {
    const match = /^(?:\[([^\]]*)\]|([^:[\]\s]*))(?::(.*))?$/s.exec(name)
    const [, bracketed, plain = '', given] = match ?? []
    const named = host ?? decode(bracketed ?? plain)
    if (!match || named === '') throw fault(form)
    const ports = [given || '5432', port ?? '5432']
    const [pattern, rule] = urlParameters.port
    if (!ports.every((text) => pattern.test(text) && Number(text) >= 1 && Number(text) <= 65_535))
      throw fault(`must set port to ${rule}`)
    return { host: named, port: Number(port ?? ports[0]) }
  })
}

/** Returns Node's options for TLS, or false for none. */
function readTls({ sslmode, sslrootcert, sslcert, sslkey }: Values) {
  const mode = sslmode ?? (sslrootcert || sslcert || sslkey ? 'verify-full' : 'disable')
  if (mode === 'disable') return false
  if (mode === 'verify-ca' && !sslrootcert) throw fault('must set sslrootcert for sslmode=verify-ca')
  if (!sslcert !== !sslkey) throw fault('must set both sslcert and sslkey, or neither')
  const isSystem = sslrootcert === 'system'
  // As libpq: anybody can get a certificate from a public authority, for a host name of their own.
  if (isSystem && mode !== 'verify-full')
    throw fault('must set sslmode to verify-full for sslrootcert=system')
  return {
    rejectUnauthorized: mode !== 'require' || sslrootcert !== undefined,
    ...(sslrootcert && { ca: isSystem ? getCACertificates('system') : read(sslrootcert) }),
    ...(sslcert && sslkey && { cert: read(sslcert), key: read(sslkey) }),
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined })
  }
}

function read(path: string): string {
  try {
    const text = readFileSync(path, 'utf8')
    // Node takes an empty sslrootcert for none, and would trust every public authority.
    if (!text.includes('-----BEGIN ')) throw new Error(`no PEM, open '${path}'`)
    return text
  } catch (error) {
    throw fault(`names a file that cannot be read: ${(error as Error).message}`)
  }
}

const isLocal = (host: string) => host.startsWith('/') || /^(localhost|127\.[\d.]+|::1)$/i.test(host)

/** Splits at the first separator. Without one, the second part is empty. */
function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)]
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw fault('must write % as %25, and other characters as the bytes of UTF-8')
  }
}

/** Names the known parameter that shares most pairs of letters with an unknown one (Dice's coefficient), if it shares enough. */
function describeUnknown(name: string): string {
  const pairsOf = (text: string) => {
    const letters = `^${text.toLowerCase().replace(/[^a-z]/g, '')}$`
    return new Set([...letters.slice(1)].map((letter, index) => `${letters[index]}${letter}`))
  }
  const given = pairsOf(name.slice(0, 64).replace(/^(ssl|tls)$/i, 'sslmode'))
  const likeness = (known: string) => {
    const own = pairsOf(known)
    return (2 * [...own].filter((pair) => given.has(pair)).length) / (own.size + given.size)
  }
  const nearest = Object.keys(urlParameters).reduce((a, b) => (likeness(b) > likeness(a) ? b : a))
  const isNear = likeness(nearest) > 0.3
  const hint = isNear ? `the nearest known one is ${nearest}` : 'docs/configuration.md lists the known ones'
  return `has the unknown parameter ${name}; ${hint}`
}
