/**
 * The certificates and keys that the database's URL names are renewed in their files, without a
 * restart.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { assertNoErrors } from '../support/histories/history.ts'
import { startRivals } from '../support/histories/rivals.ts'
import { type Certificate, createCertificate } from '../support/postgres/certificates.ts'
import { lockTable, query, setServer } from '../support/postgres/database.ts'
import { startServer } from '../support/postgres/server.ts'
import { success } from '../support/responses.ts'
import { startService, token } from '../support/service.ts'
import { hasLength, until } from '../support/until.ts'

/** Creates that succeed after each change. */
const creates = 20

const authorities = ['first', 'second', 'third'].map((name) => createCertificate(name))
const [first, second, third] = authorities as [Certificate, Certificate, Certificate]
const ofService = createCertificate('service', first)
const [firstOnly, both] = [first.cert, first.cert + second.cert]
// As in Kubernetes: ca.pem -> ..data/ca.pem, and ..data -> a directory.
const directory = t.testdir({ '..0': { 'ca.pem': firstOnly }, '..1': { 'ca.pem': third.cert } })
const at = (name: string) => join(directory, name)
await symlink('..0', at('..data'))
await symlink('..data/ca.pem', at('ca.pem'))
const write = (name: string, text: string) => writeFile(at(name), text, { mode: 0o600 })

/** Gives the service a certificate of its own. */
const equip = ({ cert, key }: Certificate) =>
  Promise.all([write('own.pem', cert), write('own.key', key)])
await equip(ofService)

const server = await startServer(t)
let served = 0
/** Gives the server a certificate of an authority. */
async function serveAs(authority: Certificate) {
  const { cert, key } = createCertificate('localhost', authority)
  const name = `server-${served++}`
  await write(`${name}.pem`, cert)
  await write(`${name}.key`, key)
  // A reload between the two settings would find files that do not match.
  await query(server.url, `alter system set ssl_cert_file = '${at(`${name}.pem`)}'`)
  await setServer(server.url, 'ssl_key_file', at(`${name}.key`))
}
await write('clients.pem', first.cert)
await setServer(server.url, 'ssl_ca_file', at('clients.pem'))
await serveAs(first)
await setServer(server.url, 'ssl', 'on')

const ours = `from pg_stat_activity where application_name = 'plant-store'`
const endSessions = () => query(server.url, `select pg_terminate_backend(pid) ${ours}`)
const parameters = `sslrootcert=${at('ca.pem')}&sslcert=${at('own.pem')}&sslkey=${at('own.key')}`
const url = `${server.url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&${parameters}`

t.test(
  'files that are renewed under load are used by the next sessions, and no client sees an error',
  async (t) => {
    const service = await startService(t, { DATABASE_URL: url })
    const load = startRivals({
      urls: [service.url],
      token,
      clients: 4,
      pauseMs: 50,
      isRepeating: true
    })
    t.teardown(() => load.stop())
    await load.succeed(creates)

    const changes: [title: string, change: () => Promise<unknown>][] = [
      [
        'a new authority beside the old one',
        () => write('ca.pem', both).then(() => serveAs(second))
      ],
      [
        'a link in the path is swapped',
        async () => {
          await symlink('..1', at('..new'))
          await rename(at('..new'), at('..data'))
          await serveAs(third)
        }
      ],
      [
        'an authority that is renamed over',
        async () => {
          await write('new.pem', second.cert)
          await rename(at('new.pem'), at('ca.pem'))
          await serveAs(second)
        }
      ]
    ]
    for (const [title, change] of changes)
      await t.test(title, async () => {
        await change()
        await load.succeed(creates) // in the open sessions
        await endSessions()
        await load.succeed(creates)
      })

    await t.test('a renewed certificate of the service and its key', async () => {
      const serials = async () => {
        const rows = await query(
          server.url,
          `select distinct client_serial as serial from pg_stat_ssl join
        (select pid ${ours}) as ours using (pid)`
        )
        return rows.map(({ serial }) => serial)
      }
      const [before] = await serials()
      await equip(createCertificate('service', first))
      await endSessions()
      await load.succeed(creates)
      await until(
        'each session has the new one',
        serials,
        (found) => found.length === 1 && found[0] !== before
      )
    })

    await assertNoErrors(t, server.url, await load.stop())
  }
)

/** What becomes of the files, and what a session that cannot be opened says. */
const broken: [title: string, damage: () => Promise<unknown>, says: RegExp][] = [
  ['the authority is gone', () => rm(at('ca.pem')), /ENOENT: .*ca\.pem'/],
  [
    'the authority is a directory',
    () => rm(at('ca.pem')).then(() => mkdir(at('ca.pem'))),
    /ca\.pem' is not a regular file/
  ],
  [
    'the authority is a pipe without a writer',
    () => rm(at('ca.pem')).then(() => execFileSync('mkfifo', [at('ca.pem')])),
    /ca\.pem' is not a regular file/
  ],
  ['the authority is empty', () => write('ca.pem', ''), /ca\.pem' has no valid certificate/],
  [
    'half of the authority is written',
    () => write('ca.pem', second.cert.slice(0, 300)),
    /ca\.pem' has no valid certificate/
  ],
  [
    'the certificate is none',
    () => write('own.pem', ofService.key),
    /own\.pem' has no valid certificate/
  ],
  [
    'the key is cut off',
    () => write('own.key', ofService.key.slice(0, 99)),
    /own\.key' has no valid key/
  ],
  [
    'the key is of another certificate',
    () => write('own.key', second.key),
    /own\.key' is not the key of '.*own\.pem'/
  ]
]

t.test('a file that is broken for a while', async (t) => {
  const mend = async () => {
    await rm(at('ca.pem'), { recursive: true, force: true })
    await Promise.all([write('ca.pem', second.cert), equip(ofService)])
  }
  await mend()
  const service = await startService(t, { DATABASE_URL: url, WRITE_DEADLINE_MS: '3000' })
  let lastId = -1
  const create = () => service.post({ id: --lastId, name: 'n' })
  const created = success({ name: 'n' })
  for (const [title, damage, says] of broken)
    await t.test(title, async (t) => {
      await until('it creates', create, ({ status }) => status === 200)
      const before = service.log().length
      await damage()
      t.strictSame(await create(), created, 'the open sessions go on')
      await endSessions()
      await until('a create is told', create, ({ status }) => status === 400)
      const causes = () =>
        service
          .log()
          .slice(before)
          .filter(({ failure }) => failure === 503)
      await until('the log names the file', () => says.test(JSON.stringify(causes())))
      t.notMatch(service.text(), /BEGIN|MII/, 'the log has nothing of what is in it')
      await mend()
      await until('it creates again', create, ({ status }) => status === 200)
    })

  await t.test('a statement is cancelled by what is in the files now', async (t) => {
    await write('ca.pem', both)
    await serveAs(first)
    const blocked = () => query(server.url, `select ${ours} and wait_event_type = 'Lock'`)
    const holder = await lockTable(t, server.url)
    const reply = create()
    await until('a statement waits', blocked, ({ length }) => length > 0)
    t.equal((await reply).status, 400)
    await until('no statement is left behind', blocked, hasLength(0))
    await holder.query('rollback')
    await until('it creates again', create, ({ status }) => status === 200)
  })
})
