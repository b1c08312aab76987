/** Docker's command line, for tests. */
import { execute } from './execute.ts'

/** The directory of the checkout. */
export const root = new URL('../..', import.meta.url).pathname

/** Runs `docker` with these arguments as `execute` does. */
export const docker = (args: string[], options?: Parameters<typeof execute>[2]) =>
  execute('docker', args, options)

/** Returns what `docker inspect` knows of containers or images. */
export async function inspect(...names: string[]) {
  return JSON.parse(await docker(['inspect', ...names]))
}

/** The arguments of a psql that runs statements, each a transaction of its own unless they say otherwise. */
export const psql = (user: string, database: string, ...statements: string[]) => [
  ...['psql', '--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--set=ON_ERROR_STOP=1'],
  ...[`--username=${user}`, `--dbname=${database}`],
  ...statements.map((statement) => `--command=${statement}`)
]

/** Parses the output of such a psql: a line for each row, its fields separated by "|". */
export const toLines = (output: string) => output.split('\n').filter((line) => line !== '')
