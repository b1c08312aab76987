/**
 * Turns the TLS parameters of a URL into options for Node, and reads the files of certificates and
 * keys that they name.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { parse } from 'pg-connection-string'

/** The names of the parameters that are about TLS. */
export const tlsParameters = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey']

const certificates = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----.*?(?:-----END [^\n]*|$)/gs

/**
 * Returns the options of TLS, with the contents of the files, or undefined if the parameters ask
 * for no TLS. It is called for each session, as libpq does, so that files can be renewed. Throws an
 * Error that names the file, and holds nothing of its contents.
 */
export function readTls(parameters: URLSearchParams): ConnectionOptions | undefined {
  const files = ['sslrootcert', 'sslcert', 'sslkey'].map((name) => parameters.get(name))
  // Reading a pipe would block the process, and the error for a directory does not name it.
  for (const file of files)
    if (file && !statSync(file).isFile()) throw new Error(`'${file}' is not a regular file`)
  const { ssl } = parse(`postgres://host/?${parameters}`, { useLibpqCompat: true })
  if (typeof ssl !== 'object') return undefined
  const { ca, cert, key } = ssl
  const [caFile, certFile, keyFile] = files
  if (ca !== undefined && !areCertificates(ca))
    throw new Error(`'${caFile}' has no valid certificate`)
  if (typeof cert === 'string' && !areCertificates(cert))
    throw new Error(`'${certFile}' has no valid certificate`)
  const ownKey = key === undefined ? undefined : tryTo(() => createPrivateKey(key))
  if (key !== undefined && !ownKey) throw new Error(`'${keyFile}' has no valid key`)
  // While the files are being renewed, one may be newer than the other.
  if (cert && ownKey && !new X509Certificate(cert).checkPrivateKey(ownKey))
    throw new Error(`'${keyFile}' is not the key of '${certFile}'`)
  return { rejectUnauthorized: true, ...(ssl as ConnectionOptions) }
}

/**
 * Returns whether a text consists of valid certificates, at least one. Node does not check that: it
 * takes an empty text for all public authorities, and skips a certificate that is damaged or cut
 * off.
 */
function areCertificates(text: string): boolean {
  const found = text.match(certificates) ?? []
  return (
    found.length > 0 && found.every((certificate) => tryTo(() => new X509Certificate(certificate)))
  )
}

/** Returns what a function returns, or undefined if it throws. */
function tryTo<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch {
    return undefined
  }
}
