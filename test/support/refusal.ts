/** What a process that cannot start must do: say why, a line for each fault, and end with 1. */
import type { Test } from 'tap'
import { type Running, start } from './process.ts'
import { linesOf } from './service.ts'
import { until } from './until.ts'

export type Env = Record<string, string>
/** A line for each fault, in any order; or one line that matches. */
export type Says = string[] | RegExp

/** The password of URLs that lead nowhere: no process may ever show it. */
export const hidden = 'thyme'

/**
 * Runs a file of the project, which must end with 1, say this on standard error, serve nothing and show none of the values of
 * AUTH_TOKENS and no password. Returns its standard output.
 */
export async function refuses(t: Test, file: string, env: Env, says: Says, args: string[] = []) {
  const running = start(t, file, env, { args })
  // One that serves would not end.
  running.output(/Server listening at/).then(running.end, () => {})
  const { code, stdout, stderr } = await running.ended
  const lines = stderr.replace(/\n$/, '').split('\n')
  t.equal(code, 1)
  if (says instanceof RegExp)
    t.ok(lines.length === 1 && says.test(`${lines}`), `${stderr} is ${says}`)
  else t.strictSame(lines.sort(), says.map((fault) => `plant-store: ${fault}`).sort())
  t.notMatch(stdout, /Server listening at/)
  const secrets = (env.AUTH_TOKENS ?? '').split(/[,:]/).filter((part) => part.length > 10)
  for (const secret of [hidden, ...secrets])
    t.notOk((stdout + stderr).includes(secret), `${secret} is not shown`)
  return stdout
}

/** Returns when a service that does not serve yet has last said that it waits for a database that lacks this. */
export async function saysMissing(running: Running, missing: RegExp) {
  const last = () =>
    linesOf(running.text()).findLast(({ msg }) => msg === 'waiting for the database')?.missing
  await until(`${missing} is missing`, last, (text) => missing.test(`${text}`))
}
