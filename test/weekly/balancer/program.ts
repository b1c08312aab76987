/** A balancer's program with its configuration in a directory of its own. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { until } from '../../support/until.ts'

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }

/** Where a program works, and two free ports: it listens on the first. */
export interface Place {
  directory: string
  port: number
  otherPort: number
}

/** Returns why tests of a program are skipped: false where it is there. */
export const isMissing = (command: string) =>
  spawnSync(command, ['-v'], { env }).error ? `${command} is not on the PATH` : false

/** Starts a program, and returns when it responds; ends it at teardown. `prepare` returns its files and its arguments. */
export async function startProgram(
  t: Test,
  command: string,
  prepare: (place: Place) => { files: Record<string, string>; args: string[]; variables?: object }
) {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-balancer-'))
  await chmod(directory, 0o755) // for a balancer that gives up the rights of root
  const [port, otherPort] = [await freePort(), await freePort()]
  const { files, args, variables } = prepare({ directory, port, otherPort })
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  const child = spawn(command, args, {
    env: { ...env, HOME: directory, ...variables },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaints += text))
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    await rm(directory, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  const fails = ended.then(() => {
    throw new Error(complaints)
  })
  await Promise.race([until(`${command} responds`, () => fetch(url)), fails])
  return { url, otherPort, directory }
}
