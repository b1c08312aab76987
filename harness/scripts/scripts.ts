/** Shell scripts of the project in a directory of their own, which are killed at one of their steps. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import type { Ended } from '../service/process.ts'
import type { Teardown } from '../teardown.ts'

const root = join(import.meta.dirname, '../..')

/** The commands by which the scripts change files, and those of Docker that change something: the steps. */
const commands = ['cat', 'chmod', 'cp', 'docker', 'find', 'install', 'mktemp', 'mv', 'openssl', 'rm', 'tar']

/**
 * Stands in for each command. Step number AT writes nothing, and then ends the whole process group by SIGNAL: a file is
 * left empty, or a whole one does not have its name yet. The engine behind Docker's command continues.
 */
const step = `#!/bin/sh
PATH=\${PATH#*:}
name=\${0##*/}
case "$name $*" in docker*inspect* | docker?compose?config* | docker?compose?ps* | docker?volume?ls*) exec docker "$@" ;; esac
echo "$name" >>"$STEPS"
steps=0
while read -r _; do steps=$((steps + 1)); done <"$STEPS"
[ "$AT" != 0 ] && [ "$steps" -ge "$AT" ] || exec "$name" "$@"
ulimit -c 0
case $name in
mv) ;;
docker) "$name" "$@" ;;
*) (ulimit -f 0 && exec "$name" "$@") ;;
esac
kill "-$SIGNAL" 0
`

/** Makes a directory that stands in for the root, until teardown. */
export function makeRoot(t: Teardown, directories: string[]): string {
  const directory = mkdtempSync(join(tmpdir(), 'plant-store-scripts-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  for (const name of ['steps', 'programs', ...directories])
    mkdirSync(join(directory, name), { recursive: true })
  for (const name of commands) writeExecutable(join(directory, 'steps', name), step)
  return directory
}

/** Writes a program. */
export function writeExecutable(path: string, source: string) {
  writeFileSync(path, source)
  chmodSync(path, 0o755)
}

/** Copies a script into the directory; the paths of its container are there, too. */
export function copyScript(directory: string, path: string) {
  const rooted = /(?<=[\s=<>'"])\/(?=(app|certificates?|config|ops|pages|run|secrets|stack)\b)/g
  const copy = join(directory, path)
  mkdirSync(dirname(copy), { recursive: true })
  writeExecutable(copy, readFileSync(join(root, path), 'utf8').replace(rooted, `${directory}/`))
}

/** Links a file of the project to where a script looks for it. */
export function linkFile(directory: string, path: string, file: string) {
  mkdirSync(dirname(join(directory, path)), { recursive: true })
  symlinkSync(join(root, file), join(directory, path))
}

interface Options {
  /** The step at which it is killed; 0, the default, for none. */
  at?: number
  env?: Record<string, string>
  input?: string | Buffer
  /** Gets a function that kills it at any time. */
  started?: (kill: () => void) => void
}

/** Runs a script with what is in `programs` before the machine's own, in a process group of its own. */
export async function runScript(
  directory: string,
  [path, ...args]: [string, ...string[]],
  { at = 0, env, input = '', started }: Options = {}
): Promise<Ended> {
  writeFileSync(join(directory, 'log'), '')
  const child = spawn(join(directory, path), args, {
    env: {
      PATH: `${directory}/steps:${directory}/programs:${process.env.PATH}`,
      STEPS: join(directory, 'log'),
      TMPDIR: directory,
      AT: `${at}`,
      SIGNAL: 'KILL',
      ...env
    },
    detached: true
  })
  started?.(() => process.kill(-(child.pid as number), 'SIGKILL'))
  child.stdin.on('error', () => {}).end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close')
  ])
  return { code, stdout, stderr }
}

/** Calls back for each step from the first, until a run ends before it; returns their number. */
export async function atEachStep(
  t: Test,
  callback: (at: number) => Promise<Ended>,
  first = 1
): Promise<number> {
  for (let at = first; ; at++) {
    const { code, stderr } = await callback(at)
    if (code === null) continue
    t.equal(code, 0, stderr)
    return at - 1
  }
}
