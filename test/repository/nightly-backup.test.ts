/**
 * ops/nightly-backup, with the scripts that it runs, is killed at each of its steps: the stack keeps what it has, and the next
 * run leaves nothing else behind. Docker is a stand-in that knows their commands; the real one is in test/container.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

const ops = join(import.meta.dirname, '../../ops')

/** A directory for each stack, with its plants a line each and its secrets. In call number AT it kills all of the script. */
const standIn = `#!/usr/bin/env bash
set -euo pipefail
call=$(($(<"$STATE/calls") + 1))
echo "$call" >"$STATE/calls"
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
'compose run --rm -T --no-deps --entrypoint tar setup -C /secrets -c '*) tar -C "$stack/secrets" -c . ;;
'compose exec -T db pg_dump '*) cat "$stack/plants" ;;
*' pg_restore --file=/dev/null' | *'--entrypoint pg_restore roles --file=/dev/null') cat >/dev/null ;;
*'--entrypoint find setup /secrets -type f') mkdir -p "$stack/secrets" && find "$stack/secrets" -type f ;;
*'--entrypoint find db /var/lib/postgresql -type f -print -quit') find "$stack" -name plants ;;
*'--entrypoint tar setup -C /secrets --no-same-owner -x') tar -C "$stack/secrets" -x ;;
'compose up --detach --wait db' | 'compose run --rm -T roles' | 'compose up --detach --wait') ;;
'compose exec -T db pg_restore '*) cat >"$stack/plants" ;;
*'--entrypoint sh setup -c cat >/pages/.new && mv /pages/.new /pages/backup.prom') cat >"$stack/backup.prom" ;;
*) echo "docker: unknown: $*" >&2 && exit 64 ;;
esac
[[ $call != "$AT" ]] || kill -KILL 0
`

t.test('SIGKILL after each step', async (t) => {
  const directory = t.testdir({
    ops: {},
    bin: {},
    backups: {},
    stacks: { 'plant-store': { secrets: { token: 's' }, plants: '1\n2\n' } }
  })
  for (const name of ['nightly-backup', 'backup', 'restore', 'get-image'])
    cpSync(join(ops, name), join(directory, 'ops', name))
  writeFileSync(join(directory, 'bin/docker'), standIn)
  chmodSync(join(directory, 'bin/docker'), 0o755)
  const backups = join(directory, 'backups')
  const run = async (at: number) => {
    writeFileSync(join(directory, 'calls'), '0')
    // Runs are shorter than a second here, and a backup bears its second.
    for (const name of readdirSync(backups))
      if (/^plants-20[2-9]\d-[^.]*$/.test(name)) rmSync(join(backups, name), { recursive: true })
    const env = { PATH: `${directory}/bin:${process.env.PATH}`, STATE: directory, AT: `${at}` }
    const child = spawn(join(directory, 'ops/nightly-backup'), [backups], {
      env,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe']
    })
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    return { code, stderr }
  }
  const stack = join(directory, 'stacks/plant-store')
  const plants = () => readFileSync(join(stack, 'plants'), 'utf8')
  const old = join(backups, 'plants-2000-01-01T030000')
  for (let at = 1; at <= 22; at++) {
    const { code } = await run(at)
    t.equal(plants(), '1\n2\n', `call ${at}`)
    if (code === 0) {
      t.equal(at, 22)
      break
    }
  }
  mkdirSync(old)
  // Made by hand: as old, but not this script's.
  const others = ['plants-1', 'plants-before-1.2'].map((name) => join(backups, name))
  for (const other of others) mkdirSync(other)
  for (const path of [old, ...others]) utimesSync(path, 0, 0)
  const began = Math.floor(Date.now() / 1_000)
  t.strictSame(await run(0), { code: 0, stderr: '' })
  t.strictSame(readdirSync(join(directory, 'stacks')), ['plant-store'])
  const [, time = ''] =
    /^plant_store_backup_time_seconds (\d+)\n$/.exec(readFileSync(join(stack, 'backup.prom'), 'utf8')) ?? []
  t.ok(Number(time) >= began)
  const [byHand, newest = '', ...rest] = readdirSync(backups).sort()
  t.strictSame([byHand, ...rest], ['plants-1', 'plants-before-1.2'])
  t.match(newest, /^plants-20[2-9]\d-\d\d-\d\dT\d{6}$/)
  t.strictSame(readdirSync(join(backups, newest)).sort(), ['plants.dump', 'secrets.tar'])

  // A backup with less than the stack had, and an old one that was whole.
  writeFileSync(join(directory, 'bin/docker'), standIn.replace("pg_dump '*) cat", "pg_dump '*) head -n 1"))
  t.match(await run(0), { code: 1, stderr: /1 of 2 plants were restored/ })
  t.strictSame(readdirSync(join(directory, 'stacks')), ['plant-store'])
  t.match(readFileSync(join(stack, 'backup.prom'), 'utf8'), time, 'it does not count')
})
