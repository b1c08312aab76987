/** X.509 certificates for the tests (RFC 5280), in the few bytes of DER that TLS needs. */
import {
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign
} from 'node:crypto'

/** A certificate and its private key, in PEM. */
export interface Certificate {
  name: string
  key: string
  cert: string
}

/** Makes a certificate for a host name, signed by an authority, which is another one, or by itself. */
export function createCertificate(name: string, authority?: Certificate): Certificate {
  const dnsName = extension('551d11', sequence(der(0x82, Buffer.from(name))))
  const isAuthority = extension('551d13', sequence(isTrue))
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const day = 86_400_000
  const body = sequence(
    der(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])), // the serial number
    ecdsaWithSha256,
    distinguishedName(authority?.name ?? name),
    sequence(time(Date.now() - day), time(Date.now() + day)),
    distinguishedName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(dnsName, isAuthority))
  )
  const signer: KeyObject = authority ? createPrivateKey(authority.key) : privateKey
  const signature = sign('sha256', body, signer)
  const bytes = sequence(body, ecdsaWithSha256, bits(signature))
  const base64 = bytes.toString('base64').replace(/.{64}/g, '$&\n')
  return {
    name,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`
  }
}

/** A tag, the length and the value (X.690, 8.1). */
function der(tag: number, ...values: Buffer[]): Buffer {
  const value = Buffer.concat(values)
  return Buffer.concat([Buffer.from([tag, ...lengthOf(value)]), value])
}

/** The length in one byte; from 128 on the number of bytes that hold it, and these. */
function lengthOf({ length }: Buffer): number[] {
  if (length < 0x80) return [length]
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
}

const sequence = (...values: Buffer[]) => der(0x30, ...values)
const integer = (value: Buffer) => der(0x02, value)
const isTrue = der(0x01, Buffer.from([0xff]))
const bits = (value: Buffer) => der(0x03, Buffer.from([0]), value)
const identifier = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const ecdsaWithSha256 = sequence(identifier('2a8648ce3d040302'))

/** A name of one part, the common name. */
const distinguishedName = (name: string) =>
  sequence(der(0x31, sequence(identifier('550403'), der(0x0c, Buffer.from(name)))))

/** UTCTime: YYMMDDHHMMSSZ. */
const time = (ms: number) =>
  der(0x17, Buffer.from(`${new Date(ms).toISOString().slice(2, 19).replace(/\D/g, '')}Z`))

const extension = (id: string, value: Buffer) => sequence(identifier(id), der(0x04, value))
