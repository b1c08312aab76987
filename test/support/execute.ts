/** Running other programs to their end. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

interface Options {
  cwd?: string
  /** Variables besides this process's own. */
  env?: Record<string, string>
}

/**
 * Returns a program's standard output without the line breaks at its end. Rejects with all its output if it fails or does
 * not exist.
 */
export async function execute(
  command: string,
  args: string[],
  { cwd, env }: Options = {}
): Promise<string> {
  try {
    const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 2 ** 29 }
    const { stdout } = await promisify(execFile)(command, args, options)
    return stdout.trimEnd()
  } catch (error) {
    const failure = error as Error & { stdout?: string }
    failure.message += `\n${failure.stdout ?? ''}`
    throw failure
  }
}

/** Returns what a program writes whatever its exit code, or undefined if there is no such program. */
export async function tryExecute(command: string, args: string[]): Promise<string | undefined> {
  return execute(command, args).catch(({ code, stdout }) =>
    code === 'ENOENT' ? undefined : stdout
  )
}
