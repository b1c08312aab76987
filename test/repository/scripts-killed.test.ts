/**
 * The scripts of ops/ are killed at each of their steps, and run again: the end is the same, two replicas serve all the while,
 * and nothing incomplete looks whole. Docker is a stand-in (support/fake-docker.bash); the real one is in test/container.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { execute } from '../../dev/execute.ts'
import { atEachStep, makeRoot, runScript, writeExecutable } from '../support/scripts.ts'

const project = join(import.meta.dirname, '../..')
const root = makeRoot(t, [])
cpSync(join(project, 'ops'), join(root, 'ops'), { recursive: true })
writeExecutable(
  join(root, 'programs/docker'),
  readFileSync(join(project, 'test/support/fake-docker.bash'), 'utf8')
)
writeExecutable(join(root, 'programs/sleep'), '#!/bin/sh\n')
writeExecutable(join(root, 'programs/git'), '#!/bin/sh\necho 0123456789ab\n')
const state = join(root, 'state')
const settings = join(root, '.env')
const backups = join(state, 'backups')
const backup = join(backups, 'whole')

const read = (path: string) => readFileSync(path, 'utf8')
/** The files below a directory, with what they hold. */
function readFiles(directory: string): Record<string, string> {
  const entries = existsSync(directory)
    ? readdirSync(directory, { recursive: true, withFileTypes: true })
    : []
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
  return Object.fromEntries(files.sort().map((file) => [file.slice(directory.length + 1), read(file)]))
}
function writeFiles(directory: string, files: Record<string, string>) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
}

const secrets = {
  'api/database-url': 'u',
  'api/tokens': 'd',
  'certificate/balancer.pem': 'c',
  'db/superuser-password': 'p',
  'migrate/database-url': 'o',
  'tokens/alice': 't'
}
const images = {
  old: 'sha256:old',
  older: 'sha256:older',
  'registry%app:1': 'sha256:stale',
  broken: 'sha256:broken',
  failing: 'sha256:failing',
  refused: 'sha256:refused'
}
const own = '# mine\nPLANT_STORE_IMAGE=old\nLOG_LEVEL=debug'
const before = 'PLANT_STORE_PREVIOUS_IMAGE=older\n'

/** A stack with two replicas, and a backup of it. */
async function reset(count = 2) {
  for (const path of [state, settings, `${settings}.new`]) rmSync(path, { recursive: true, force: true })
  const stack = join(state, 'stacks/plant-store')
  writeFiles(state, { last: '12', plants: '1\n2\nend\n' })
  writeFiles(join(state, 'images'), images)
  writeFiles(join(stack, 'secrets'), secrets)
  writeFiles(stack, { plants: '1\n2\n' })
  for (let number = 1; number <= count; number++)
    writeFiles(join(stack, 'replicas'), { [`c1${number}`]: 'old healthy\n' })
  writeFileSync(settings, `${own}\n${before}`)
  mkdirSync(backup, { recursive: true })
  writeFiles(backup, { 'plants.dump': '1\n2\nend\n', '.env': own })
  await execute('tar', [
    '-C',
    join(stack, 'secrets'),
    '-cf',
    join(backup, 'secrets.tar'),
    ...readdirSync(join(stack, 'secrets'))
  ])
}

const run = (command: string[], { at = 0, ...env }: { at?: number; [name: string]: string | number } = {}) =>
  runScript(root, [`ops/${command[0]}`, ...command.slice(1)], {
    at,
    env: { STATE: state, FAULT: '', ...(env as Record<string, string>) }
  })

/** All that a script can leave behind; without the numbers of replicas and the times of backups. */
function look() {
  const { short = '', last: _, ...files } = readFiles(state)
  const all = Object.entries(files).map(([path, text]) => {
    const name = path.replace(/replicas\/c\d+$/, 'replicas/c').replace(/plants-20\d\d-[^/]*/, 'plants-night')
    return `${name}: ${name.endsWith('.prom') || name.endsWith('.tar') ? '' : text.replace('starting', 'healthy')}`
  })
  const left = readdirSync(root).filter((name) => /^\.env/.test(name))
  return { short, left, settings: existsSync(settings) && read(settings), all: all.sort() }
}

/** What is run, from which number of replicas, and the lines of .env afterwards. */
const table: Record<
  string,
  { command: string[]; env?: Record<string, string>; count?: number; ends: string; signals?: string[] }
> = {
  'an update to a release': {
    command: ['rolling-update', 'registry/app:1'],
    ends: `${own.replace('=old', '=registry/app@sha256:new')}\nPLANT_STORE_PREVIOUS_IMAGE=old\n`,
    signals: ['KILL', 'TERM']
  },
  'an update to the sources': {
    command: ['rolling-update'],
    ends: `${own.replace('=old', '=plant-store-api:0123456789ab-0123456789ab')}\nPLANT_STORE_PREVIOUS_IMAGE=old\n`
  },
  'an update back': {
    command: ['rolling-update', '--back'],
    ends: `${own.replace('=old', '=older')}\n${before}`
  },
  'more replicas': {
    command: ['scale', '4'],
    ends: `${own}\n${before}REPLICAS=4\n`,
    signals: ['KILL', 'TERM']
  },
  'fewer replicas': { command: ['scale', '2'], count: 4, ends: `${own}\n${before}REPLICAS=2\n` },
  'an image': {
    command: ['get-image', 'registry/app:1'],
    ends: `${own.replace('=old', '=registry/app@sha256:new')}\nPLANT_STORE_PREVIOUS_IMAGE=old\n`
  },
  'a backup': { command: ['backup', join(backups, 'new')], ends: `${own}\n${before}` },
  'a restore': {
    command: ['restore', backup],
    env: { COMPOSE_PROJECT_NAME: 'other', PLANT_STORE_IMAGE: 'old' },
    ends: own
  },
  'a nightly backup': { command: ['nightly-backup', backups], ends: `${own}\n${before}` }
}

for (const [what, { command, env = {}, count, ends, signals = ['KILL'] }] of Object.entries(table)) {
  t.test(`${what}, killed at each step`, async (t) => {
    const begin = async () => {
      await reset(count)
      if (command[0] === 'restore') rmSync(settings)
      return look()
    }
    const began = await begin()
    t.match(await run(command, env), { code: 0 })
    const end = look()
    t.strictSame([end.short, end.left, end.settings], ['', ['.env'], ends])
    for (const SIGNAL of signals) {
      const steps = await atEachStep(t, async (at) => {
        await begin()
        const killed = await run(command, { at, SIGNAL, ...env })
        const at_ = `SIG${SIGNAL} at step ${at}`
        const left = look().settings
        t.ok(left === began.settings || left === ends, at_)
        if (killed.code !== 0 && !isDeepStrictEqual(withoutParts(look()), withoutParts(end))) {
          // Two of one second would have one name.
          for (const name of readdirSync(backups).filter((name) => /^plants-20[^.]*$/.test(name)))
            rmSync(join(backups, name), { recursive: true })
          let { code, stderr } = await run(command, env)
          // As it says, from anywhere.
          const [down] = /docker compose --project-directory .* down -v$/m.exec(stderr) ?? []
          if (down) {
            const PATH = `${root}/programs:${process.env.PATH}`
            await execute('bash', ['-c', down], { cwd: '/', env: { PATH, STATE: state, FAULT: '' } })
            ;({ code, stderr } = await run(command, env))
          }
          t.equal(code, 0, `${at_}: ${stderr}`)
        }
        t.strictSame(withoutParts(look()), withoutParts(end), at_)
        return killed.code !== 0 ? { ...killed, code: null } : killed
      })
      t.ok(steps > 2, `${steps} steps`)
    }
  })
}

/** Without the remains of a backup, which have no name of one, and the tag that a pull gives to another image until it ends. */
const withoutParts = ({ all, ...others }: ReturnType<typeof look>) => ({
  ...others,
  all: all.filter((line) => !/^backups\/new\.\w{6}\/|^images\/registry%app:1:/.test(line))
})

t.test('what fails leaves the stack, .env and the images as they were, and says why', async (t) => {
  const rows: [string[], RegExp, { [name: string]: string }?][] = [
    [
      ['rolling-update', 'broken'],
      /a line of broken .*not become ready \(restarting unhealthy 1\); the old ones serve on\n$/s
    ],
    [
      ['rolling-update', 'failing'],
      /failures_total\{name="Internal"\} 1\n.*a line of failing .*creates fail in a new replica/s
    ],
    [['rolling-update', 'refused'], /WRITE_LANES must be an integer/],
    [['rolling-update', 'unknown'], /denied/],
    [['rolling-update', '--forward'], /usage/],
    [['scale', '65'], /usage/],
    [['scale', '3'], /REPLICAS is exported as '5', but '2' by \.env/, { REPLICAS: '5' }],
    [
      ['get-image'],
      /COMPOSE_PROJECT_NAME is exported as 'x', but 'plant-store' by/,
      { COMPOSE_PROJECT_NAME: 'x' }
    ],
    [['backup', join(backups, 'bad')], /^$/, { FAULT: 'dump' }],
    [['backup', join(backups, 'bad')], /tokens: Not found in archive/, { FAULT: 'secrets' }],
    [['backup', backup], /must not exist yet/],
    [['restore', backup], /the stack plant-store has secrets already/],
    [['nightly-backup', backups], /1 of 2 plants were restored/, { FAULT: 'less' }]
  ]
  for (const [command, message, env] of rows) {
    await reset()
    const began = look()
    const { code, stderr } = await run(command, env)
    const what = command.join(' ')
    t.not(code, 0, what)
    t.match(stderr, message, what)
    const { all, ...others } = look()
    t.strictSame(
      { ...others, all: all.filter((line) => !line.startsWith('backups/plants-night/')) },
      began,
      what
    )
  }
})

t.test('without its registry, an image is the one that is here, and the script says so', async (t) => {
  await reset()
  const { code, stdout, stderr } = await run(['get-image', 'registry/app:1'], { FAULT: 'registry' })
  t.strictSame([code, stdout], [0, 'registry/app@sha256:stale\n'])
  t.match(
    stderr,
    /connection refused\nget-image: the registry cannot be reached: using what was pulled from it before/
  )
})

t.test('.env keeps every other byte, its mode and where it is', async (t) => {
  await reset(4)
  const file = join(root, 'elsewhere')
  writeFileSync(file, '# REPLICAS=7\n export REPLICAS = 4 # four\n\nA="b\\n"\r\nREPLICAS_X=1')
  chmodSync(file, 0o640)
  rmSync(settings)
  symlinkSync(file, settings)
  t.match(await run(['scale', '2']), { code: 0 })
  t.equal(read(file), '# REPLICAS=7\nREPLICAS=2\n\nA="b\\n"\r\nREPLICAS_X=1')
  t.equal(statSync(file).mode & 0o777, 0o640)
  t.ok(lstatSync(settings).isSymbolicLink())
  rmSync(settings)
  t.match(await run(['scale', '3']), { code: 0 })
  t.equal(read(settings), 'REPLICAS=3\n')
})

t.test(
  'a restore refuses before it makes anything: a taken port, a backup that it cannot read',
  async (t) => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const other = { COMPOSE_PROJECT_NAME: 'other' }
    const refuses = async (message: RegExp, env: Record<string, string> = {}) => {
      const began = look()
      const { code, stderr } = await run(['restore', backup], { ...other, ...env })
      t.not(code, 0)
      t.match(stderr, message)
      t.strictSame(look(), began)
    }
    await reset()
    rmSync(settings)
    await refuses(new RegExp(`port ${port} of 127\\.0\\.0\\.1 is taken`), { PORT: `${port}` })
    writeFileSync(join(backup, 'plants.dump'), '1\n')
    await refuses(/the plants of this backup cannot be read/)
    // Cut where an entry begins, which tar takes for the end.
    const archive = join(backup, 'secrets.tar')
    writeFileSync(archive, read(archive).split('tokens/')[0] as string)
    await refuses(/tokens: Not found in archive/)
    await reset()
    writeFiles(join(state, 'stacks/other'), { plants: '3\n' })
    await refuses(/its plants may be newer than the backup/)
  }
)

t.test('a nightly backup deletes what is older than two weeks and its own', async (t) => {
  await reset()
  const names = ['plants-2000-01-01T030000', 'plants-1', 'plants-before-1.2']
  for (const name of names) mkdirSync(join(backups, name))
  for (const name of names) utimesSync(join(backups, name), 0, 0)
  t.match(await run(['nightly-backup', backups]), { code: 0 })
  const [first, newest = '', ...rest] = readdirSync(backups).sort()
  t.strictSame([first, ...rest], ['plants-1', 'plants-before-1.2', 'whole'])
  t.match(newest, /^plants-20[2-9]\d-\d\d-\d\dT\d{6}$/)
  for (const name of ['.env', 'plants.dump', 'secrets.tar'])
    t.equal(statSync(join(backups, newest, name)).mode & 0o777, 0o600)
  t.match(read(join(state, 'stacks/plant-store/backup.prom')), /^plant_store_backup_time_seconds \d+\n$/)
})

t.test('a second script refuses while one runs', async (t) => {
  await reset()
  const lock = spawn('flock', [join(root, 'ops'), 'sh', '-c', 'echo locked && cat'])
  await once(lock.stdout, 'data')
  for (const command of [
    ['rolling-update', 'old'],
    ['scale', '3'],
    ['get-image', 'old']
  ])
    t.match(await run(command), { code: 1, stdout: '', stderr: `${command[0]}: another one runs\n` })
  lock.stdin.end()
  await once(lock, 'close')
})
