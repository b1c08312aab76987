/**
 * ops/backup, ops/restore and ops/nightly-backup are killed at each of their steps: the stack keeps what it has, no
 * incomplete backup looks whole, and the next run ends. Docker is a stand-in that knows their commands; the real one is in
 * test/container.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { execute } from '../../dev/execute.ts'
import { atEachStep, makeRoot, runScript, writeExecutable } from '../support/scripts.ts'

const ops = join(import.meta.dirname, '../../ops')

/**
 * A directory for each stack, with its plants a line each and its secrets; `serves` has the plants that it began to serve with.
 * A dump ends with a line of its own. DAMAGE names what is written badly.
 */
const standIn = `#!/usr/bin/env bash
set -euo pipefail
[[ "$*" != 'compose run '* || -n \${PLANT_STORE_IMAGE:-} ]] || { echo 'docker: it would build' >&2 && exit 64; }
project=\${COMPOSE_PROJECT_NAME:-plant-store}
stack=$STATE/stacks/$project
case "$*" in
'compose config') echo "name: $project" ;;
'compose config --environment') echo "PLANT_STORE_IMAGE=\${PLANT_STORE_IMAGE:-}" ;;
'compose ps --all --quiet api') echo replica ;;
'inspect --format {{.Config.Image}} replica' | 'image inspect plant-store') echo plant-store ;;
'compose --progress=quiet --profile * down --volumes --timeout 5') rm -rf "$stack" ;;
'compose exec -T db psql '*'select count(*) from plants') wc -l <"$stack/plants" ;;
*'--entrypoint flock setup /secrets/tokens/.lock tar -C /secrets -c api certificate db migrate tokens')
  parts='api certificate db migrate tokens'
  [[ $DAMAGE != secrets ]] || parts='api certificate db migrate'
  tar -C "$stack/secrets" -c $parts
  ;;
'compose exec -T db pg_dump '*)
  [[ $DAMAGE != less ]] || { head -n 1 "$stack/plants" && echo end && exit; }
  cat "$stack/plants"
  [[ $DAMAGE == dump ]] || echo end
  ;;
*' pg_restore --file=/dev/null' | *'--entrypoint pg_restore roles --file=/dev/null') [[ $(tail -n 1) == end ]] ;;
*'--entrypoint find setup /secrets -type f') mkdir -p "$stack/secrets" && find "$stack/secrets" -type f ;;
*'--entrypoint find db /var/lib/postgresql -type f -print -quit') find "$stack" -name plants ;;
*'--entrypoint tar setup -C /secrets --no-same-owner -x') tar -C "$stack/secrets" -x ;;
'compose up --detach --wait db') : >"$stack/plants" ;;
'compose run --rm -T roles') ;;
'compose exec -T db pg_restore '*) sed '$d' >"$stack/plants" ;;
'compose up --detach --wait') cp "$stack/plants" "$stack/serves" ;;
*'--entrypoint sh setup -c cat >/pages/.backup && mv /pages/.backup /pages/backup.prom') cat >"$stack/backup.prom" ;;
*) echo "docker: unknown: $*" >&2 && exit 64 ;;
esac
`

const root = makeRoot(t, ['backups', 'ops'])
for (const name of ['nightly-backup', 'backup', 'restore', 'get-image'])
  cpSync(join(ops, name), join(root, 'ops', name))
writeExecutable(join(root, 'programs/docker'), standIn)
const backups = join(root, 'backups')
const stacks = join(root, 'stacks')
const settings = join(root, '.env')
const secrets = {
  'api/database-url': 'u',
  'api/tokens': 'd',
  'certificate/balancer.pem': 'c',
  'db/superuser-password': 'p',
  'migrate/database-url': 'o',
  'tokens/alice': 't'
}
for (const [path, secret] of Object.entries(secrets)) {
  mkdirSync(join(stacks, 'plant-store/secrets', path, '..'), { recursive: true })
  writeFileSync(join(stacks, 'plant-store/secrets', path), secret)
}
writeFileSync(join(stacks, 'plant-store/plants'), '1\n2\n')
writeFileSync(settings, 'LOG_LEVEL=debug\n')

const run = (
  script: string,
  name: string,
  { at = 0, ...env }: { at?: number; [name: string]: string | number } = {}
) =>
  runScript(root, [`ops/${script}`, name], {
    at,
    env: { STATE: root, DAMAGE: '', PLANT_STORE_IMAGE: 'plant-store', ...(env as Record<string, string>) }
  })
const done = { code: 0, stdout: '', stderr: '' }
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const mode = (...path: string[]) => (statSync(join(...path)).mode & 0o777).toString(8)

/** What a stack holds. */
function readStack(name: string) {
  const held = readdirSync(join(stacks, name), { recursive: true, withFileTypes: true })
  const files = held.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  return Object.fromEntries(files.map((file) => [file.slice(stacks.length + name.length + 2), read(file)]))
}

const original = readStack('plant-store')

t.test('ops/backup, killed: a backup with the final name is whole', async (t) => {
  const steps = await atEachStep(t, async (at) => {
    const backup = join(backups, `killed-${at}`)
    const killed = await run('backup', backup, { at })
    if (!existsSync(backup)) t.strictSame(await run('backup', backup), done)
    const files = ['.env', 'plants.dump', 'secrets.tar']
    t.strictSame(
      files.map((file) => mode(backup, file)),
      ['600', '600', '600']
    )
    t.equal(read(backup, 'plants.dump'), '1\n2\nend\n')
    t.equal(read(backup, '.env'), 'LOG_LEVEL=debug\n')
    const unpacked = join(root, `unpacked-${at}`)
    mkdirSync(unpacked)
    await execute('tar', ['-C', unpacked, '-xf', join(backup, 'secrets.tar')])
    for (const [path, secret] of Object.entries(secrets)) t.equal(read(unpacked, path), secret)
    const left = readdirSync(backups).filter((name) => name.startsWith(`killed-${at}`))
    for (const name of left)
      t.strictSame([name.replace(/\.\w{6}$/, ''), mode(backups, name)], [`killed-${at}`, '700'])
    rmSync(backups, { recursive: true })
    mkdirSync(backups)
    return killed
  })
  t.ok(steps > 6, `${steps} steps`)
  t.strictSame(readStack('plant-store'), original)
})

t.test('ops/backup refuses what it cannot read back, and leaves nothing', async (t) => {
  for (const DAMAGE of ['dump', 'secrets']) {
    const { code, stderr } = await run('backup', join(backups, 'bad'), { DAMAGE })
    t.not(code, 0, DAMAGE)
    if (DAMAGE === 'secrets') t.match(stderr, /tokens: Not found in archive/)
    t.strictSame(readdirSync(backups), [], DAMAGE)
  }
})

const others = { COMPOSE_PROJECT_NAME: 'other' }

t.test('ops/restore, killed: the next one refuses, or ends', async (t) => {
  const backup = join(backups, 'whole')
  t.strictSame(await run('backup', backup), done)
  rmSync(settings)
  const whole = { ...original, serves: original.plants }
  let refused = 0
  const steps = await atEachStep(t, async (at) => {
    const killed = await run('restore', backup, { at, ...others })
    if (killed.code !== 0) {
      const left = existsSync(join(stacks, 'other')) && readStack('other')
      const next = await run('restore', backup, others)
      if (next.code !== 0) {
        refused++
        t.match(next, {
          code: 1,
          stderr: /if a restore broke off, run docker compose --profile '\*' down -v, then restore again\n$/
        })
        t.strictSame(readStack('other'), left, 'it has touched nothing')
        rmSync(join(stacks, 'other'), { recursive: true })
        t.strictSame(await run('restore', backup, others), done)
      }
    }
    t.strictSame(readStack('other'), whole, `step ${at}`)
    t.equal(read(settings), 'LOG_LEVEL=debug\n', `step ${at}`)
    t.notOk(existsSync(join(root, '.env.new')), `step ${at}`)
    rmSync(join(stacks, 'other'), { recursive: true })
    rmSync(settings)
    return killed
  })
  t.ok(steps > 10 && refused > 3, `${steps} steps, ${refused} refused`)
})

t.test('ops/restore refuses a backup that it cannot read, and a stack that has data', async (t) => {
  const refuses = async (what: string, stderr: RegExp, files: Record<string, string> = {}, env = others) => {
    const bad = join(backups, what)
    cpSync(join(backups, 'whole'), bad, { recursive: true })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(bad, name), text)
    const { code, ...rest } = await run('restore', bad, env)
    t.not(code, 0, what)
    t.match(rest, { stderr }, what)
    t.notOk(existsSync(settings), what)
    rmSync(bad, { recursive: true })
  }
  await refuses('dump', /the plants of this backup cannot be read/, { 'plants.dump': '1\n' })
  t.strictSame(readStack('other'), {})
  rmSync(join(stacks, 'other'), { recursive: true })
  // Cut where an entry begins, which tar takes for the end.
  await refuses('secrets', /tokens: Not found in archive/, {
    'secrets.tar': read(backups, 'whole/secrets.tar').split('tokens/')[0] as string
  })
  t.notOk(existsSync(join(stacks, 'other')))
  await refuses('has secrets', /this stack has secrets already/, {}, { COMPOSE_PROJECT_NAME: 'plant-store' })
  t.strictSame(readStack('plant-store'), original)
  mkdirSync(join(stacks, 'other'))
  writeFileSync(join(stacks, 'other/plants'), '3\n')
  await refuses('has plants', /its plants may be newer than the backup/)
  t.strictSame(readStack('other'), { plants: '3\n' })
  rmSync(join(stacks, 'other'), { recursive: true })
  rmSync(join(backups, 'whole'), { recursive: true })
})

t.test(
  'ops/nightly-backup, killed: the stack keeps what it has, and the next run leaves nothing else behind',
  async (t) => {
    const night = (options = {}) => {
      // Runs are shorter than a second here, and a backup bears its second.
      for (const name of readdirSync(backups))
        if (/^plants-20[2-9]\d-[^.]*$/.test(name)) rmSync(join(backups, name), { recursive: true })
      return run('nightly-backup', backups, options)
    }
    const old = join(backups, 'plants-2000-01-01T030000')
    const steps = await atEachStep(t, async (at) => {
      mkdirSync(old, { recursive: true })
      utimesSync(old, 0, 0)
      const killed = await night({ at })
      const { 'backup.prom': _, ...stack } = readStack('plant-store')
      t.strictSame(stack, original, `step ${at}`)
      return killed
    })
    t.ok(steps > 25, `${steps} steps`)
    mkdirSync(old)
    // Made by hand: as old, but not this script's.
    const byHand = ['plants-1', 'plants-before-1.2']
    for (const name of byHand) mkdirSync(join(backups, name))
    for (const name of byHand) utimesSync(join(backups, name), 0, 0)
    utimesSync(old, 0, 0)
    const began = Math.floor(Date.now() / 1_000)
    t.strictSame(await night(), done)
    t.strictSame(readdirSync(stacks), ['plant-store'])
    const [, time = ''] =
      /^plant_store_backup_time_seconds (\d+)\n$/.exec(read(stacks, 'plant-store/backup.prom')) ?? []
    t.ok(Number(time) >= began)
    const [first, newest = '', ...rest] = readdirSync(backups).sort()
    t.strictSame([first, ...rest], byHand)
    t.match(newest, /^plants-20[2-9]\d-\d\d-\d\dT\d{6}$/)
    t.strictSame(readdirSync(join(backups, newest)).sort(), ['plants.dump', 'secrets.tar'])

    // A backup with less than the stack had.
    t.match(await night({ DAMAGE: 'less' }), { code: 1, stderr: /1 of 2 plants were restored/ })
    t.strictSame(readdirSync(stacks), ['plant-store'])
    t.match(read(stacks, 'plant-store/backup.prom'), time, 'it does not count')
  }
)
