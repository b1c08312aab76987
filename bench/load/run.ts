/** Running the load generators' programs. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** Runs a program to its end and gives its standard output. Throws when it fails or is not there; it never outlives us. */
export async function run(command: string, args: string[], cwd?: string): Promise<string> {
  const running = execute(command, args, { cwd })
  const kill = () => running.child.kill()
  process.once('exit', kill)
  const { stdout } = await running.finally(() => process.off('exit', kill))
  return stdout
}

/** Gives a program's output, or undefined where there is no such program. */
export async function tryRun(command: string, args: string[]): Promise<string | undefined> {
  return run(command, args).catch(({ code, stdout }) => (code === 'ENOENT' ? undefined : stdout))
}
