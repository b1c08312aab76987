/**
 * ops/rolling-update ends at each of its steps, by each signal: the replicas that are wanted serve all the while, and the
 * next update ends with them. Docker is a stand-in that knows the commands of the script; the real one is in test/container.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

const ops = join(import.meta.dirname, '../../ops')

/** A file for each container, with what `docker inspect` says of it. In call number AT it ends its process group. */
const standIn = `#!/usr/bin/env bash
set -euo pipefail
cd "$STATE"
call=$(($(<calls) + 1))
echo "$call" >calls
strike() { [[ $call != "$AT" || $WHEN != "$1" ]] || kill -"$SIGNAL" 0; }
case "$*" in
'compose ps --all --quiet api') (cd containers && ls) ;;
'compose config --environment') echo 'HOME=/root' ;;
'compose build' | 'compose run --rm --no-deps migrate') ;;
'compose up --detach --no-deps --no-recreate --scale api='*' api')
  for file in containers/*; do
    [[ $(<"$file") != exited* ]] || echo 'running starting 0' >"$file"
  done
  wanted=\${7#api=}
  while (($(ls containers | wc -l) < wanted)); do
    echo $(($(<last) + 1)) >last
    echo 'running starting 0' >"containers/c$(<last)"
    strike amid
  done
  ;;
'inspect --format {{.State.Status}} {{.State.Health.Status}} {{.RestartCount}} '*)
  cat "containers/$4"
  echo 'running healthy 0' >"containers/$4"
  ;;
'stop '*) echo 'exited unhealthy 0' >"containers/$2" && echo "$2" ;;
'rm --force '*) rm "containers/$3" && echo "$3" ;;
*) echo "docker: unknown: $*" >&2 && exit 64 ;;
esac
(($(cat containers/* | grep -c 'running healthy') >= 2)) || echo "$*" >>short
strike after
`

/** Two replicas, and an update that ends at a call of Docker; then another that does not. */
async function update(directory: string, at: number, when: string, signal: string) {
  for (const name of ['ops', 'bin', 'containers']) mkdirSync(join(directory, name), { recursive: true })
  for (const name of ['rolling-update', 'get-image']) cpSync(join(ops, name), join(directory, 'ops', name))
  writeFileSync(join(directory, 'bin/docker'), standIn)
  writeFileSync(join(directory, 'bin/sleep'), '#!/bin/sh\n')
  for (const name of ['docker', 'sleep']) chmodSync(join(directory, 'bin', name), 0o755)
  for (const name of ['c11', 'c12']) writeFileSync(join(directory, 'containers', name), 'running healthy 0\n')
  writeFileSync(join(directory, 'last'), '12')
  const run = async (at: number) => {
    writeFileSync(join(directory, 'calls'), '0')
    const env = {
      PATH: `${directory}/bin:${process.env.PATH}`,
      STATE: directory,
      AT: `${at}`,
      WHEN: when,
      SIGNAL: signal
    }
    // A process group of its own, as in a terminal.
    const child = spawn(join(directory, 'ops/rolling-update'), {
      env,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe']
    })
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    return { code, stderr }
  }
  const replicas = () => {
    const folder = join(directory, 'containers')
    return readdirSync(folder).map((name) => `${name} ${readFileSync(join(folder, name), 'utf8').trim()}`)
  }
  const first = await run(at)
  const left = replicas()
  const second = await run(0)
  return {
    first,
    left,
    second,
    replicas: replicas(),
    isMarked: existsSync(join(directory, '.rolling-update')),
    isShort: existsSync(join(directory, 'short'))
  }
}

t.test('a second update refuses while one runs', async (t) => {
  // The lock is the directory of the scripts.
  const child = spawn('flock', [ops, join(ops, 'rolling-update')], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close')
  ])
  t.strictSame(
    { code, stdout, stderr },
    { code: 1, stdout: '', stderr: 'rolling-update: another one runs\n' }
  )
})

const old = ['c11 running healthy 0', 'c12 running healthy 0']

for (const signal of ['KILL', 'TERM']) {
  for (const when of ['amid', 'after']) {
    t.test(`SIG${signal} ${when} each step`, async (t) => {
      let struck = 0
      for (let at = 1; at <= 15; at++) {
        const directory = t.testdir({})
        const { first, left, second, replicas, isMarked, isShort } = await update(directory, at, when, signal)
        const what = `call ${at}`
        t.strictSame(second, { code: 0, stderr: '' }, what)
        t.equal(replicas.length, 2, what)
        for (const replica of replicas) {
          t.match(replica, / running healthy 0$/, what)
          t.notOk(old.includes(replica), what)
        }
        t.notOk(isMarked, what)
        t.notOk(isShort, `${what}: two serve all the while`)
        if (first.code !== 0) {
          struck++
          // Until an old one is stopped, a signal that can be caught takes everything back.
          if (signal === 'TERM' && at <= 10) t.strictSame(left, old, what)
        }
        if (when === 'amid' ? at > 6 : first.code === 0) break
      }
      t.equal(struck, when === 'amid' ? 1 : 14)
    })
  }
}
