/**
 * Reads a database URL into the driver's options. Each of its parameters is honoured, or refused by
 * name.
 */
import type { ConnectionOptions } from 'node:tls'
import type pg from 'pg'
import { parse } from 'pg-connection-string'
import { StartupFault } from '../startup-fault.ts'
import { readTls, tlsParameters } from './tls.ts'

/** Where and how to open sessions: options of the driver's client, and those of connector.ts. */
export interface DatabaseOptions extends pg.ClientConfig {
  /** All hosts, in the order in which they are tried. */
  readonly hosts: readonly { host: string; port: number }[]
  /**
   * A host on another machine that is reached without TLS although the URL does not ask for that,
   * or undefined.
   */
  readonly exposedHost: string | undefined
  /**
   * Reads the files that the URL names, again each time. Returns the options of TLS, or undefined
   * if it asks for none. Throws an Error that names the file.
   */
  readonly readTls: () => ConnectionOptions | undefined
}

const anyText = /^[^\0]+$/s

/**
 * Every parameter that a URL may have, the end of the message "must set NAME to …", and the pattern
 * that its value must match.
 */
const parameters: Readonly<Record<string, readonly [rule: string, pattern?: RegExp]>> = {
  sslmode: [
    'one of disable, require, verify-ca, verify-full',
    /^(disable|require|verify-(ca|full))$/
  ],
  sslrootcert: ['a file; without it, the public authorities are trusted', /^(?!system$)[^\0]+$/s],
  sslcert: ['a file'],
  sslkey: ['a file'],
  channel_binding: ['prefer, and sslmode to verify-full', /^(disable|prefer)$/],
  host: ['a name, an address, or the directory of a Unix socket', /^[^\s,@]+$/],
  port: ['an integer from 1 to 65535', /^\d{1,5}$/],
  application_name: ['a name'],
  connect_timeout: ['an integer from 0 to 999999', /^\d{1,6}$/],
  options: ['a text'],
  target_session_attrs: ['one of any, read-write, primary', /^(any|read-write|primary)$/]
}

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const escapes =
  'must write %, @, /, ?, # and & within its user, password and values as ' +
  '%25, %40, %2F, %3F, %23 and %26'

const fault = (rule: string) => new StartupFault([rule])
/**
 * Splits a URL into user and password, hosts, path, parameters, and a fragment. A database URL has
 * no fragment, so one shows that a # was not escaped.
 */
const parts = /^postgres(?:ql)?:\/\/([^/?#]*@)?([^/?#\s]*)(\/[^?#]*)?(?:\?([^#]*))?(#.*)?$/s

/**
 * Reads a `postgres://` or `postgresql://` URL as libpq does, with the parameters above. If it
 * has several hosts, only one that accepts writes is used. Throws a StartupFault that names the
 * broken rule, and holds no part of the password.
 */
export function parseDatabaseUrl(url: string): DatabaseOptions {
  const [isUrl, credentials = '', list = '', path = '', query = '', rest] =
    parts.exec(url.trim()) ?? []
  if (isUrl === undefined) throw fault(form)
  // An unescaped #, / or ? in the password ends it early. Stop here, because a later message would
  // quote the rest of the password as a host or a parameter.
  const isCut = rest !== undefined || `${path}?${query}`.includes('@')
  if (isCut || /%(00|(?![\da-f]{2}))/i.test(url)) throw fault(escapes)
  const given = readParameters(query)
  const values: Values = Object.fromEntries(given)
  checkTogether(values, list)
  const tls = new URLSearchParams([...given].filter(([name]) => tlsParameters.includes(name)))
  const isEncrypted = tryReadTls(tls) !== undefined
  for (const name of tlsParameters) given.delete(name)
  const all = list
    .split(',')
    .map((host) => tryParse(`postgres://${credentials}${host}${path}?${given}`))
  const hosts = all.map(({ host, port }) => ({ host: host ?? '', port: Number(port || 5432) }))
  if (!hosts.every(({ host, port }) => host && port > 0 && port <= 65_535)) throw fault(form)
  const [{ user = '', password = '', database, options }] = all as [ReturnType<typeof parse>]
  return {
    user,
    password,
    hosts,
    database: database ?? '',
    readTls: () => readTls(tls),
    ...(options !== undefined && { options }),
    application_name: values.application_name ?? 'plant-store',
    enableChannelBinding: values.channel_binding === 'prefer',
    connectionTimeoutMillis: Number(values.connect_timeout ?? 0) * 1_000,
    exposedHost:
      values.sslmode || isEncrypted
        ? undefined
        : hosts.find(({ host }) => !isLocal.test(host))?.host
  }
}

const isLocal = /^(\/|(localhost|127\.[\d.]+|::1)$)/i

type Values = Readonly<Record<string, string | undefined>>

function readParameters(query: string): URLSearchParams {
  // In libpq, + is no space, but URLSearchParams would read it as one.
  const given = new URLSearchParams(query.replaceAll('+', '%2B'))
  for (const [name, value] of given) {
    const [rule, pattern = anyText] = (Object.hasOwn(parameters, name) && parameters[name]) || []
    if (!rule)
      throw fault(`has the unknown parameter ${name}; docs/configuration.md lists the known ones`)
    if (given.getAll(name).length > 1) throw fault(`must not set ${name} twice`)
    if (!pattern.test(value)) throw fault(`must set ${name} to ${rule}`)
  }
  return given
}

function checkTogether({ sslmode, sslrootcert, sslcert, sslkey, ...others }: Values, list: string) {
  // Without an @, the user and the password of a URL are read as a host and a port. With the
  // parameter host, such a URL would otherwise be accepted. The message must not quote them.
  if (list && (others.host || others.port))
    throw fault('must not set host or port beside a host before the path')
  if (list.includes(',') && others.target_session_attrs === 'any')
    throw fault('must set target_session_attrs to read-write')
  if (sslmode === 'verify-ca' && !sslrootcert)
    throw fault('must set sslrootcert for sslmode=verify-ca')
  if (!sslcert !== !sslkey) throw fault('must set both sslcert and sslkey, or neither')
}

/** Parses the URL of one host. */
function tryParse(url: string) {
  try {
    return parse(url, { useLibpqCompat: true })
  } catch {
    // Do not show the library's message: it could quote the URL.
    throw fault(form)
  }
}

function tryReadTls(parameters: URLSearchParams) {
  try {
    return readTls(parameters)
  } catch (error) {
    throw fault(`has a parameter whose file cannot be read: ${(error as Error).message}`)
  }
}
