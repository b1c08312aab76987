/**
 * Whatever a server sends in place of PostgreSQL's messages: a start waits and says so, and a
 * service goes on by itself.
 */
import t, { type Test } from 'tap'
import { createCertificate } from '../support/postgres/certificates.ts'
import { createDatabase } from '../support/postgres/database.ts'
import { message, type Part, startDouble } from '../support/postgres/double.ts'
import { migrateFile, serverFile, start } from '../support/process.ts'
import { hidden, refuses, saysMissing } from '../support/refusal.ts'
import { success } from '../support/responses.ts'
import { startService, token } from '../support/service.ts'
import { until } from '../support/until.ts'

t.jobs = 2

const loggedIn = Buffer.concat([message('R', 0), message('K', 1, 2), message('Z', 'I')])
const authenticate = (type: number): Part => ({ answers: [message('R', type)] })
const atLogin = (...bytes: number[]): Part => ({ answers: [Buffer.from(bytes)] })
const atQuery = (...answers: Buffer[]): Part => ({ answers: [loggedIn, ...answers] })
const mysql = Buffer.from('4a0000000a382e302e3336000800000041424344454647480000', 'hex')
const http = Buffer.from(
  'HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'
)

const misunderstood = /is not understood: /
const unknown = (type: number) => new RegExp(`is not understood: .*type ${type}$`)
const isCut = /is not understood: an error that is cut off$/
const isOutOfRange = /is not understood: .*out of range/
const lengthOf = (bytes: number) => new RegExp(`is not understood: a message of ${bytes} bytes$`)

/** Parts, and what is said of them at a start: in clear text, and where it differs under TLS. */
const parts: [title: string, part: Part, says: RegExp, saysOfTls?: RegExp][] = [
  // The methods that a real server asks for: Kerberos, GSSAPI, SSPI.
  ...[2, 6, 7, 9, 99].map((type): [string, Part, RegExp] => [
    `authentication ${type}`,
    authenticate(type),
    unknown(type)
  ]),
  ['a message of length 0', atLogin(0x52, 0, 0, 0, 0), lengthOf(0)],
  ['a message of length 3', atLogin(0x5a, 0, 0, 0, 3), lengthOf(3)],
  [
    'a message of 4 GB that never ends',
    { answers: [Buffer.from('R\xff\xff\xff\xff', 'latin1')] },
    lengthOf(4294967295)
  ],
  ['a key message that is too short', { answers: [message('K', 'ab')] }, isOutOfRange],
  ['an error without an end', { answers: [message('E', 'SFATAL\0')] }, isCut],
  ['an empty error', { answers: [message('E')] }, isCut],
  ['a notice without an end', { answers: [message('N', 'SNOTICE\0Mx')] }, isCut],
  ['a row before any statement', { answers: [message('D', '\0\x01')] }, isOutOfRange],
  ['a row description that is cut off', atQuery(message('T', '\0\x02id\0')), isOutOfRange],
  ['a row that is cut off', atQuery(message('T', '\0\0'), message('D', '\0\x01')), isOutOfRange],
  ['an unknown message', { answers: [message('%', 1)] }, /invalid response: 25$/],
  ['SCRAM without its beginning', { answers: [message('R', 11, 'r=x')] }, /cannot be reached: /],
  ['an end at once', { answers: [Buffer.alloc(0)], ends: true }, /terminated unexpectedly$/],
  ['random bytes', { answers: [Buffer.from('3f8a91c7e05b', 'hex')] }, misunderstood],
  ["MySQL's greeting", { greeting: mysql, tlsAnswer: mysql }, misunderstood, /as PostgreSQL does$/],
  [
    'an HTTP server',
    { answers: [http], tlsAnswer: http, ends: true },
    misunderstood,
    /as PostgreSQL does$/
  ]
]
/** What only happens before TLS. */
const tlsParts: [title: string, part: Part, says: RegExp][] = [
  ['no TLS', { tlsAnswer: Buffer.from('N') }, /the server does not support TLS$/],
  ['more than one byte', { tlsAnswer: Buffer.from('S\x15\x03', 'latin1') }, /as PostgreSQL does$/],
  ['an error', { tlsAnswer: message('E', 'SFATAL\0\0') }, /as PostgreSQL does$/]
]

const certificate = createCertificate('localhost')
const isEncrypted = [false, true]
const protocolOf = (encrypted: boolean) => (encrypted ? 'under TLS' : 'in clear text')

/** Starts a double of the tests' server; returns it with the URL of a database behind it. */
async function stage(t: Test, encrypted: boolean) {
  const database = await createDatabase(t)
  const url = new URL(database)
  const double = await startDouble(t, Number(url.port), certificate)
  Object.assign(url, { hostname: '127.0.0.1', port: double.port })
  return { double, url: url.href + (encrypted ? '?sslmode=require' : '') }
}

const partsOf = (encrypted: boolean): [title: string, part: Part, says: RegExp][] => [
  ...parts.map(([title, part, says, saysOfTls = says]): [string, Part, RegExp] => [
    title,
    part,
    encrypted ? saysOfTls : says
  ]),
  ...(encrypted ? tlsParts : [])
]

const isTold = /^(Unavailable|DeadlineExceeded|OutcomeUnknown)$/
const env = { HOST: '127.0.0.1', PORT: '0', AUTH_TOKENS: `shop:${token}` }

for (const encrypted of isEncrypted)
  t.test(
    `a start ${protocolOf(encrypted)} says what it meets, and serves when the server is right`,
    async (t) => {
      const { double, url } = await stage(t, encrypted)
      double.become(authenticate(7))
      const running = start(t, serverFile, {
        ...env,
        DATABASE_URL: url,
        STARTUP_TIMEOUT_MS: '600000'
      })
      const ended = running.ended.then((end) => Promise.reject(new Error(JSON.stringify(end))))
      for (const [title, part, says] of partsOf(encrypted)) {
        double.become(part)
        await Promise.race([saysMissing(running, says), ended])
        t.pass(title)
      }
      double.become(undefined)
      await running.output(/Server listening at/)
    }
  )

t.test('a start that gives up, and one of the migrations, end in one line', async (t) => {
  const { double, url } = await stage(t, false)
  double.become(authenticate(7))
  const line =
    'the database cannot be reached: what the server sends is not understood: Unknown authenticationOk message type 7'
  const briefly = { ...env, DATABASE_URL: url, STARTUP_TIMEOUT_MS: '1' }
  await refuses(t, serverFile, briefly, [line])
  await refuses(t, migrateFile, briefly, [line])
})

for (const encrypted of isEncrypted)
  t.test(`a service ${protocolOf(encrypted)} goes on when the server is right again`, async (t) => {
    const { double, url } = await stage(t, encrypted)
    const service = await startService(t, { DATABASE_URL: url, WRITE_DEADLINE_MS: '3000' })
    let lastId = 0
    const create = () => service.post({ id: ++lastId, name: 'n' })
    t.strictSame(await create(), success({ name: 'n' }))
    for (const [title, part] of partsOf(encrypted)) {
      double.become(part)
      const reply = create()
      await until(`${title} is met`, double.played)
      double.become(undefined)
      const { status, headers } = await reply
      t.ok(status === 200 || isTold.test(`${headers['error-name']}`), title)
      await until('it creates again', create, (reply) => reply.status === 200)
    }
    double.become(authenticate(7))
    t.match(await create(), { status: 400, headers: { 'error-name': isTold } })
    double.become(undefined)
    await until('it creates again', create, (reply) => reply.status === 200)
    t.equal(service.child.exitCode, null, 'it has not ended')
    t.notMatch(service.text(), hidden)
  })
