/** Docker's command line, for what needs the image itself: its tests and its figures. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

interface Options {
  cwd?: string
  env?: Record<string, string>
}

/** Runs `docker` with these arguments and gives its standard output; rejects with all that it wrote when it fails. */
export async function docker(args: string[], options: Options = {}): Promise<string> {
  return execute('docker', args, options)
}

/** Runs any command the same way. */
export async function execute(command: string, args: string[], { cwd, env }: Options = {}): Promise<string> {
  try {
    const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 2 ** 28 }
    const { stdout } = await promisify(execFile)(command, args, options)
    return stdout.trimEnd()
  } catch (error) {
    const { message, stdout, stderr } = error as Error & { stdout: string; stderr: string }
    throw new Error(`${message}\n${stdout}\n${stderr}`)
  }
}

/** Builds the image from the checkout; NODE_IMAGE takes the place of its base. */
export async function buildImage(tag: string, flags: string[] = []): Promise<void> {
  const base = process.env.NODE_IMAGE ? ['--build-arg', `NODE_IMAGE=${process.env.NODE_IMAGE}`] : []
  await docker(['build', '--tag', tag, ...base, ...flags, '.'], { cwd: root })
}

/** Where the checkout is. */
export const root = new URL('..', import.meta.url).pathname

/** Gives what `docker inspect` knows of containers or images. */
export async function inspect(...names: string[]) {
  return JSON.parse(await docker(['inspect', ...names]))
}

/** Asks until the response is true; throws after two minutes, which are for the slowest of machines. */
export async function until(what: string, isTrue: () => Promise<boolean>, pauseMs = 100): Promise<void> {
  const end = performance.now() + 120_000
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`waited two minutes for this: ${what}`)
    await sleep(pauseMs)
  }
}

/** The status of a response, or undefined where there is none. */
export async function statusOf(url: string): Promise<number | undefined> {
  return fetch(url).then(
    ({ status }) => status,
    () => undefined
  )
}
