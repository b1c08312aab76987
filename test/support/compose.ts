/** A Compose project, queried and changed by the names of its services. */
import { docker, psql, toLines } from './docker.ts'

/** Returns the operations on the project that this folder and these variables name. */
export function openProject(cwd: string, env: Record<string, string>) {
  const compose = (...args: string[]) => docker(['compose', '--progress=quiet', ...args], { cwd, env })

  /** Runs a command in a service's container, and returns what it writes. */
  const exec = (service: string, ...command: string[]) => compose('exec', '-T', service, ...command)

  return {
    compose,
    exec,
    /** Runs statements in a database's container, each a transaction of its own unless they say otherwise, and returns their lines. */
    psql: async (service: string, user: string, ...statements: string[]) =>
      toLines(await exec(service, ...psql(user, 'plants', ...statements))),
    /** The address on this machine of a port that a service publishes. */
    url: async (service: string, port: number) => `http://${await compose('port', service, String(port))}`
  }
}
