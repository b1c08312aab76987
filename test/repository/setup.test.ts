/**
 * What makes the secrets of the Compose stacks is killed at each of its steps: the next run ends with all of them, each file
 * whole, and nothing else. The roles are in test/database.
 */
import { execFileSync } from 'node:child_process'
import { createHash, createHmac, createPrivateKey, pbkdf2Sync, X509Certificate } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createAuthority } from '../../harness/postgres/certificates.ts'
import {
  atEachStep,
  copyScript,
  linkFile,
  makeRoot,
  runScript,
  writeExecutable
} from '../../harness/scripts/scripts.ts'

/** Each file below a directory with its permissions. */
function listFiles(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
  const mode = (file: string) => (statSync(file).mode & 0o777).toString(8)
  return Object.fromEntries(files.map((file) => [file.slice(directory.length + 1), mode(file)]))
}

const setup = 'ops/compose/setup.sh'
const configuration = [
  'alertmanager/f',
  'grafana/a',
  'haproxy/b',
  'postgresql/c',
  'prometheus/d',
  'prometheus/web/runbook.html'
]
const secrets = [
  'api/database-url',
  'api/tokens',
  'db/plants_owner-verifier',
  'db/plants_service-verifier',
  'db/plants_exporter-verifier',
  'db/superuser-password',
  'exporter/database-url',
  'exporter/password',
  'migrate/database-url',
  'tokens/.lock'
]
const root = makeRoot(t, [
  ...['alertmanager', 'compose', 'grafana', 'haproxy', 'postgresql', 'prometheus/web'].map(
    (part) => `ops/${part}`
  ),
  ...['api', 'certificate', 'db', 'exporter', 'migrate', 'tokens'].map((reader) => `secrets/${reader}`),
  ...['config', 'pages', 'stack']
])
copyScript(root, setup)
linkFile(root, 'app/dist/commands/create-token.js', 'src/commands/create-token.ts')

const readSecret = (path: string) => readFileSync(join(root, 'secrets', path), 'utf8')
const runSetup = (args: string[] = [], at = 0) => runScript(root, [setup, ...args], { at })
const done = { code: 0, stdout: '', stderr: '' }
/** The steps before it are those of the configuration. */
const firstSecret = 5
const callers: string[] = []
let release = 0

/** Makes a release with a configuration of its own. */
function makeRelease() {
  release++
  for (const path of [...configuration.map((path) => `ops/${path}`), 'stack/e'])
    writeFileSync(join(root, path), `${path} ${release}`)
}

/** Fails unless each secret is there and fits the others, and the configuration is a copy of the release. */
function assertWhole(t: Test, what: string) {
  const faults: string[] = []
  const expect = (isSo: boolean, fault: string) => isSo || faults.push(fault)
  expect(/^[0-9a-f]{64}\n$/.test(readSecret('db/superuser-password')), 'superuser')
  const readers = { plants_owner: 'migrate', plants_service: 'api', plants_exporter: 'exporter' }
  for (const [role, reader] of Object.entries(readers)) {
    const url = new RegExp(
      `^postgres://${role}:([0-9a-f]{64})@db:5432/(?:plants\\?sslmode=disable|postgres)\n$`
    )
    const [, password = ''] = url.exec(readSecret(`${reader}/database-url`)) ?? []
    expect(password !== '' && recognises(readSecret(`db/${role}-verifier`), password), role)
  }
  const entries = readSecret('api/tokens').trimEnd().split('\n')
  expect(
    entries.every((entry) => /^[\w-]+:sha256:[0-9a-f]{64}$/.test(entry)),
    'entries'
  )
  for (const name of callers) {
    const [, token = ''] = /^(\S{43})\n$/.exec(readSecret(`tokens/${name}`)) ?? []
    // Of a run that was killed there may be one before, whose token nobody has.
    const newest = entries.findLast((entry) => entry.startsWith(`${name}:`))
    expect(newest === `${name}:sha256:${createHash('sha256').update(token).digest('hex')}`, name)
  }
  for (const path of [...configuration.map((path) => `ops/${path}`), 'stack/e']) {
    const copy = readFileSync(join(root, 'config', path.replace('ops/', '')), 'utf8')
    expect(copy === `${path} ${release}`, copy)
  }
  expect(
    readSecret('exporter/database-url').includes(`:${readSecret('exporter/password').trim()}@`),
    'exporter'
  )
  const page = readFileSync(join(root, 'pages/backup.prom'), 'utf8')
  expect(/^# .*\nplant_store_backup_time_seconds \d+\n$/.test(page), page)
  const files = ['secrets', 'config', 'pages'].map((directory) => listFiles(join(root, directory)))
  const paths = [...secrets, ...callers.map((name) => `tokens/${name}`)]
  const copies = [...configuration, 'compose/setup.sh', 'stack/e']
  const expected = [
    Object.fromEntries(paths.map((path) => [path, callers.includes(path.slice(7)) ? '600' : '644'])),
    Object.fromEntries(copies.map((path) => [path, '644'])),
    { 'backup.prom': '644', 'runbook.html': '644', 'wanted.prom': '644' }
  ]
  t.strictSame({ files, faults }, { files: expected, faults: [] }, what)
}

/** Kills the set-up at each step, after `prepare`, and asserts that the next one completes it: a plain one, as `up` runs. */
async function assertRepaired(t: Test, args: string[], prepare: () => void, first?: number) {
  const kill = async (at: number) => {
    prepare()
    const killed = await runSetup(args, at)
    t.strictSame(await runSetup(), done, `step ${at}`)
    assertWhole(t, `step ${at}`)
    return killed
  }
  const steps = await atEachStep(t, kill, first)
  t.ok(steps > 10, `${steps} steps`)
}

t.test('setup.sh, killed while it copies the configuration of a release', async (t) => {
  makeRelease()
  t.strictSame(await runSetup(), done)
  await assertRepaired(t, [], () => {
    makeRelease()
    rmSync(join(root, 'pages/backup.prom'))
  })
})

t.test('setup.sh, killed while it makes the secrets', async (t) => {
  const lose = () => {
    for (const path of secrets) rmSync(join(root, 'secrets', path))
  }
  await assertRepaired(t, [], lose, firstSecret)
})

t.test('setup.sh NAME, killed while it makes a token: the next run for this caller shows one', async (t) => {
  t.match(await runSetup(['-caller']), {
    code: 1,
    stdout: '',
    stderr: /may not begin with a dot or a hyphen/
  })
  const kill = async (at: number) => {
    const name = `caller-${at}`
    const { code } = await runSetup([name], at)
    t.strictSame(await runSetup(), done, name)
    t.notOk('tokens/.new' in listFiles(join(root, 'secrets')), 'no token is left that was never shown')
    callers.push(name)
    const stderr = `The access token of ${name}:\n`
    t.strictSame(await runSetup([name]), { code: 0, stdout: readSecret(`tokens/${name}`), stderr })
    assertWhole(t, name)
    return { ...done, code }
  }
  const steps = await atEachStep(t, kill, firstSecret)
  t.ok(steps > 10, `${steps} steps`)
})

t.test('setup.sh --restore, killed while it takes secrets, has them all at last', async (t) => {
  const parts = ['api', 'certificate', 'db', 'migrate', 'tokens']
  // The verifier of the exporter's password, which is in no backup, is made again.
  const read = () =>
    Object.entries(listFiles(join(root, 'secrets')))
      .filter(([name]) => name !== 'db/plants_exporter-verifier')
      .map((file) => [...file, readSecret(file[0])])
  const [before, archive] = [read(), join(root, 'secrets.tar')]
  const tar = (...args: string[]) => execFileSync('tar', ['-C', join(root, 'secrets'), ...args])
  tar('-cf', archive, ...parts)
  const input = readFileSync(archive)
  const restore = (at = 0) => runScript(root, [setup, '--restore'], { at, input })
  const lose = () => {
    for (const part of parts) rmSync(join(root, 'secrets', part), { recursive: true })
    for (const part of parts) mkdirSync(join(root, 'secrets', part))
  }
  const steps = await atEachStep(
    t,
    async (at) => {
      lose()
      const killed = await restore(at)
      t.match(await restore(), { code: 0, stderr: '' }, `step ${at}`)
      t.strictSame(read(), before, `step ${at}`)
      return killed
    },
    firstSecret
  )
  t.ok(steps > 10, `${steps} steps`)
  lose()
  const names = callers.toSorted().join('\n')
  t.strictSame(await restore(), { code: 0, stdout: `${names}\n`, stderr: '' })
  lose()
  await runSetup([])
  t.match(readSecret('api/tokens'), /^nobody:/)
  t.match(await restore(), { code: 0, stdout: `${names}\n` }, 'a stack that began anew gets them, too')
  const [revoked = ''] = callers.splice(-1)
  t.strictSame(await runSetup(['--revoke', revoked]), done)
  assertWhole(t, 'revoked')
  t.notMatch(readSecret('api/tokens'), `${revoked}:`)
  t.strictSame(await restore(), done, 'tokens that are there are kept')
  assertWhole(t, 'kept')
  t.match(await runSetup(['--revoke']), { code: 2, stderr: /whose/ })
  t.match(await runSetup(['--revoke', revoked]), { code: 1, stderr: /has no token/ })
})

t.test('setup.sh --rotate, killed: the next run ends with passwords that fit', async (t) => {
  const before = readSecret('api/database-url')
  await assertRepaired(t, ['--rotate'], () => {}, firstSecret)
  t.not(readSecret('api/database-url'), before)
})

t.test('setup.sh replaces empty files, also with --rotate', async (t) => {
  for (const name of callers.splice(1)) rmSync(join(root, 'secrets/tokens', name))
  for (const args of [[], ['--rotate']]) {
    for (const path of secrets) writeFileSync(join(root, 'secrets', path), '')
    t.strictSame(await runSetup(args), done)
    for (const name of callers) t.match(await runSetup([name]), { code: 0, stdout: /^\S{43}\n$/ })
    assertWhole(t, `with ${args}`)
  }
})

t.test('setup.sh without a generator fails, and leaves every secret as it was', async (t) => {
  const read = () => Object.keys(listFiles(join(root, 'secrets'))).map((path) => [path, readSecret(path)])
  for (const generator of ['node', 'od']) {
    // What it writes before it fails.
    writeExecutable(join(root, 'programs', generator), '#!/bin/sh\necho 0123\nexit 3\n')
    const before = read()
    t.match(await runSetup(['--rotate']), { code: 3, stdout: '' }, generator)
    t.strictSame(read(), before, generator)
    rmSync(join(root, 'programs', generator))
  }
})

/** The certificate and the key of a file in PEM. */
function readPem(path: string) {
  const pem = readFileSync(path, 'utf8')
  return { pem, certificate: new X509Certificate(pem), key: createPrivateKey(pem) }
}

t.test('certificate.sh, killed while it makes a certificate, and while it takes one', async (t) => {
  const root = makeRoot(t, ['certificate', 'pages'])
  const script = 'ops/compose/certificate.sh'
  copyScript(root, script)
  const file = join(root, 'certificate/balancer.pem')
  const assertWhole = (what: string) => {
    t.strictSame(listFiles(join(root, 'certificate')), { 'balancer.pem': '644' }, what)
    const { pem, certificate, key } = readPem(file)
    t.ok(certificate.checkPrivateKey(key), what)
    t.strictSame(listFiles(join(root, 'pages')), { 'certificate.prom': '644' }, what)
    const expiry = `plant_store_certificate_expiry_time_seconds ${Date.parse(certificate.validTo) / 1_000}\n`
    t.equal(readFileSync(join(root, 'pages/certificate.prom'), 'utf8'), expiry, what)
    return pem
  }
  const made = await atEachStep(t, async (at) => {
    rmSync(file, { force: true })
    const killed = await runScript(root, [script], { at })
    t.strictSame(await runScript(root, [script]), done)
    assertWhole(`step ${at}`)
    return killed
  })
  t.ok(made > 5, `${made} steps`)
  let before = assertWhole('made')
  const taken = await atEachStep(t, async (at) => {
    const { cert, key } = createAuthority(`of step ${at}`)
    const killed = await runScript(root, [script, '--import'], { at, input: cert + key })
    t.strictSame(await runScript(root, [script]), done)
    const after = assertWhole(`step ${at}`)
    t.ok([before, cert + key].includes(after), `step ${at}`)
    before = after
    return killed
  })
  t.ok(taken > 5, `${taken} steps`)
  const input = createAuthority('one').cert + createAuthority('another').key
  t.match(await runScript(root, [script, '--import'], { input }), { code: 1, stderr: /the key is not that/ })
  t.equal(assertWhole('refused'), before)
  const { cert, key } = createAuthority('expired', -1)
  t.match(await runScript(root, [script, '--import'], { input: cert + key }), { code: 1, stderr: /expired/ })
  t.equal(assertWhole('expired'), before)
})

t.test('make-certificates, killed: of the authority only the certificate is left', async (t) => {
  const root = makeRoot(t, ['certificates/authority', 'certificates/server'])
  const script = 'deploy/make-certificates'
  copyScript(root, script)
  const [authority, server] = ['authority', 'server'].map((name) => join(root, 'certificates', name))
  const scratch = join(root, 'scratch')
  const run = (at = 0) => {
    // It is each container's own.
    rmSync(scratch, { recursive: true, force: true })
    mkdirSync(scratch)
    return runScript(root, [script, 'db', 'pgbouncer'], { at, env: { TMPDIR: scratch } })
  }
  const steps = await atEachStep(t, async (at) => {
    rmSync(join(authority as string, 'certificate.pem'), { force: true })
    const killed = await run(at)
    t.equal((await run()).code, 0, `step ${at}`)
    t.strictSame(readdirSync(scratch), [])
    t.strictSame(listFiles(join(root, 'certificates')), {
      'authority/certificate.pem': '644',
      'server/certificate.pem': '644',
      'server/key.pem': '640'
    })
    const signer = new X509Certificate(readFileSync(join(authority as string, 'certificate.pem')))
    const certificate = new X509Certificate(readFileSync(join(server as string, 'certificate.pem')))
    const key = createPrivateKey(readFileSync(join(server as string, 'key.pem')))
    t.ok(certificate.verify(signer.publicKey) && certificate.checkPrivateKey(key), `step ${at}`)
    t.notOk(signer.checkPrivateKey(key), `step ${at}`)
    t.strictSame([certificate.checkHost('db'), certificate.checkHost('pgbouncer')], ['db', 'pgbouncer'])
    return killed
  })
  t.ok(steps > 5, `${steps} steps`)
})

/** Whether a verifier is that of a password (RFC 5803). */
function recognises(line: string, password: string): boolean {
  const [, rounds, salt = '', stored, server] =
    /^SCRAM-SHA-256\$(\d+):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)\n$/.exec(line) ?? []
  const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(rounds), 32, 'sha256')
  const key = (name: string) => createHmac('sha256', salted).update(name).digest()
  const digest = createHash('sha256').update(key('Client Key')).digest('base64')
  return stored === digest && server === key('Server Key').toString('base64')
}
