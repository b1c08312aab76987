/** A Compose stack of a run's own: brought up, asked, and taken down with everything that it made. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

/** A running stack. */
export type Stack = ReturnType<typeof createStack>

/** Who creates plants in a stack, and by which token. */
export const client = { caller: 'dev', token: 'insecure-development-token' }

const longestOutput = 512 * 1024 * 1024

/**
 * Describes a stack: the folder of its compose.yaml and .env.example, what its project's name begins with, the images
 * that it builds (as they are named behind the project's name), and what it is told besides .env.example.
 */
export function createStack(
  folder: string,
  prefix: string,
  images: string[],
  settings: Record<string, string> = {}
) {
  const project = `${prefix}-${process.pid}`
  const env = {
    ...process.env,
    ...settings,
    COMPOSE_PROJECT_NAME: project,
    COMPOSE_ENV_FILES: '.env.example',
    COMPOSE_FILE: 'compose.yaml',
    AUTH_TOKENS: `${client.caller}:${client.token}`,
    PORT: '0'
  }

  /** Runs docker in the stack's folder, and gives what it writes to standard output. Rejects with what it complains of. */
  async function docker(...args: string[]): Promise<string> {
    const child = execFile('docker', args, { cwd: folder, env, maxBuffer: longestOutput })
    let output = ''
    let complaints = ''
    child.stdout?.on('data', (chunk) => (output += chunk))
    child.stderr?.on('data', (chunk) => (complaints += chunk))
    const [code] = await once(child, 'close')
    if (code === 0) return output
    throw new Error(`docker ${args.join(' ')} ended with ${code}: ${(complaints || output).slice(-2_000)}`)
  }

  const compose = (...args: string[]) => docker('compose', ...args)

  /** Runs a command in a service's container, and gives what it writes. */
  const exec = (service: string, ...command: string[]) => compose('exec', '-T', service, ...command)

  /** The name of a service's container. */
  const container = (service: string, index = 1) => `${project}-${service}-${index}`

  return {
    project,
    docker,
    compose,
    /** Builds and starts everything, and waits until it is healthy; shows the logs when that fails. */
    async up() {
      await compose('build', '--quiet')
      await compose('up', '--detach', '--wait').catch(async (error) => {
        process.stderr.write(await compose('logs', '--no-color', '--tail', '50'))
        throw error
      })
    },
    exec,
    /** Runs statements in a database's container, each a transaction of its own unless they say otherwise: their lines. */
    async psql(service: string, user: string, ...statements: string[]): Promise<string[]> {
      const psql = ['psql', '--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--set=ON_ERROR_STOP=1']
      const commands = statements.map((statement) => `--command=${statement}`)
      const output = await exec(service, ...psql, `--username=${user}`, '--dbname=plants', ...commands)
      return output.split('\n').filter((line) => line !== '')
    },
    container,
    /** Ends a service's container by SIGKILL. */
    kill: (service: string, index = 1) => docker('kill', '--signal', 'KILL', container(service, index)),
    start: (service: string, index = 1) => docker('start', container(service, index)),
    /** The address on this machine of a port that a service publishes. */
    async url(service: string, port: number) {
      return `http://${(await compose('port', service, String(port))).trim()}`
    },
    /** Removes containers, networks, volumes and images. */
    async down() {
      await compose('down', '--volumes', '--timeout', '1', '--remove-orphans')
      await docker('image', 'rm', '--force', ...images.map((image) => `${project}-${image}`))
    }
  }
}

/** Tries again, once a pause, until the check gives a value; throws the last trouble when that takes too long. */
export async function until<T>(
  what: string,
  check: () => Promise<T | undefined>,
  limitMs = 600_000
): Promise<T> {
  const end = performance.now() + limitMs
  let trouble: unknown
  for (;;) {
    const found = await check().catch((error) => {
      trouble = error
      return undefined
    })
    if (found !== undefined) return found
    if (performance.now() > end) throw new Error(`${what}: not in ${limitMs} ms`, { cause: trouble })
    await sleep(250)
  }
}
