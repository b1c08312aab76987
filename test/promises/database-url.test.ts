/** The database's URL: its TLS and its hosts are what was asked for. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createCertificate } from '../support/postgres/certificates.ts'
import { query, serverUrl, setServer } from '../support/postgres/database.ts'
import { startPair } from '../support/postgres/server.ts'
import { serverFile, start } from '../support/process.ts'
import { saysMissing } from '../support/refusal.ts'
import { success } from '../support/responses.ts'
import { startService, token } from '../support/service.ts'
import { until } from '../support/until.ts'

t.jobs = 4

const directory = t.testdir({})
const file = (name: string) => join(directory, name)

/** Writes a file that only we may read, and returns its path. */
function write(name: string, text: string) {
  writeFileSync(file(name), text, { mode: 0o600 })
  return file(name)
}

const [rightAuthority, wrongAuthority] = [createCertificate('right'), createCertificate('wrong')]
const right = `sslrootcert=${write('right.pem', rightAuthority.cert)}`
const wrong = `sslrootcert=${write('wrong.pem', wrongAuthority.cert)}`
const own = createCertificate('service', rightAuthority)
const ownCertificate = `sslcert=${write('own.pem', own.cert)}&sslkey=${write('own.key', own.key)}`

const service = { HOST: '127.0.0.1', PORT: '0', AUTH_TOKENS: `shop:${token}` }

const pair = await startPair(t)
const { primary } = pair
const certificate = createCertificate('localhost', rightAuthority)
await setServer(primary.url, 'ssl_cert_file', write('server.pem', certificate.cert))
await setServer(primary.url, 'ssl_key_file', write('server.key', certificate.key))
await setServer(primary.url, 'ssl_ca_file', file('right.pem'))
await setServer(primary.url, 'ssl', 'on')
const standbyHost = new URL(pair.standbyUrl).host
const primaryHost = new URL(primary.url).host
/** What stands for host and port in a URL. */
const hosts = {
  localhost: `localhost:${primary.port}`,
  '127.0.0.1': primaryHost,
  'a server without TLS': new URL(serverUrl()).host,
  'refused, standby, primary': `127.0.0.1:1,${standbyHost},${primaryHost}`,
  'standby, primary': `${standbyHost},${primaryHost}`,
  standby: standbyHost
}
type Host = keyof typeof hosts

const urlOf = (host: Host, query: string) => {
  const url = host === 'a server without TLS' ? serverUrl() : primary.url
  return `${url.replace(new URL(url).host, hosts[host])}?${query}`
}

const clear = { ssl: false, client_dn: null }
const encrypted = { ssl: true, client_dn: null }

/** URLs with which the service serves: host, parameters, and what the primary says of the sessions. */
const serves: [host: Host, query: string, session: object][] = [
  ['localhost', 'sslmode=disable', clear],
  ['127.0.0.1', 'sslmode=require', encrypted],
  ['127.0.0.1', `sslmode=verify-ca&${right}`, encrypted],
  ['localhost', `sslmode=verify-full&${right}`, encrypted],
  ['localhost', `${right}&${ownCertificate}`, { ssl: true, client_dn: '/CN=service' }],
  ['localhost', 'sslmode=require&channel_binding=prefer', encrypted],
  ['refused, standby, primary', 'target_session_attrs=read-write', clear],
  ['standby, primary', '', clear]
]

/** URLs that are not taken: host, parameters, and what is said. */
const refused: [host: Host, query: string, line: RegExp][] = [
  ['127.0.0.1', `sslmode=verify-full&${right}`, /certificate's altnames/],
  [
    'localhost',
    `sslmode=verify-full&${wrong}`,
    /unable to verify the first certificate|self-signed certificate/
  ],
  [
    'localhost',
    'sslmode=verify-full',
    /unable to verify the first certificate|self-signed certificate/
  ],
  [
    'localhost',
    `sslmode=require&${wrong}`,
    /unable to verify the first certificate|self-signed certificate/
  ],
  ['a server without TLS', 'sslmode=require', /does not support TLS/],
  ['standby', 'target_session_attrs=read-write', /read-only/]
]
const shown = (text: string) => text.replaceAll(`${directory}/`, '') || 'no parameter'

t.test(
  'a start on a URL whose server is not the one that was meant says so, and serves nothing',
  async (t) => {
    const url = urlOf('localhost', `sslmode=verify-full&${wrong}`)
    const running = start(t, serverFile, {
      ...service,
      STARTUP_TIMEOUT_MS: '600000',
      DATABASE_URL: url
    })
    await saysMissing(running, /unable to verify the first certificate|self-signed certificate/)
    t.notMatch(running.text(), /listening at|Metrics at/)
  }
)

// A new URL in the file is taken as one at the start is, and one process is enough for all.
t.test('a service whose DATABASE_URL_FILE changes', async (t) => {
  const path = write('url', primary.url)
  const { post, log } = await startService(t, { DATABASE_URL: '', DATABASE_URL_FILE: path })
  const adopt = (url: string) => writeFileSync(path, url)
  let lastId = 0
  const creates = async (t: Test) =>
    t.strictSame(await post({ id: ++lastId, name: 'n' }), success({ name: 'n' }))

  for (const [index, [host, parameters, session]] of serves.entries())
    await t.test(
      `${host}, ${shown(parameters)}: serves over ${JSON.stringify(session)}`,
      async (t) => {
        const name = `url-${index}`
        adopt(urlOf(host, `${parameters}&application_name=${name}`))
        const sessions = () =>
          query(
            primary.url,
            'select ssl, client_dn from pg_stat_ssl join pg_stat_activity using (pid) where application_name = $1',
            [name]
          )
        const used = () => creates(t).then(sessions)
        await until('it is used', used, ({ length }) => length > 0)
        for (const found of await sessions()) t.strictSame(found, session)
      }
    )

  const refusals = () =>
    log().filter(({ msg }) => msg === 'DATABASE_URL_FILE has a URL that does not work yet')
  for (const [host, parameters, line] of refused)
    await t.test(`${host}, ${shown(parameters)}: refused, ${line}`, async (t) => {
      const before = refusals().length
      adopt(urlOf(host, parameters))
      await until('it is refused', () =>
        refusals()
          .slice(before)
          .some(({ missing }) => line.test(`${missing}`))
      )
      await creates(t)
    })
})
