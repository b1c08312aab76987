/** A Compose stack of a run's own: brought up, queried, and taken down with everything that it made. */
import { join, resolve } from 'node:path'
import { openProject } from '../../support/compose.ts'
import { docker, psql, root, sourceDateEpoch, toLines } from '../../support/docker.ts'

/** A running stack. */
export type Stack = ReturnType<typeof createStack>

/** Creates a plant with the token given for each `host=id`; the key makes it safe to send it again. */
const create = `
  const [token, ...creates] = process.argv.slice(1)
  const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json', 'idempotency-key': 'k' }
  const bodies = creates.map(async (each) => {
    const [host, id] = each.split('=')
    const body = '{"id":' + id + ',"name":"n"}'
    return (await fetch('http://' + host + ':3000/plants', { method: 'POST', headers, body })).text()
  })
  Promise.all(bodies).then((texts) => console.log(texts.join('\\n')))`

/** How long a stack may take to repair what a fault has broken, in ms. */
export const settleMs = 600_000

/** How long the parts that a fault of a schedule has hit may take to work again, and creates to succeed, in ms. */
export const graceMs = Math.max(30_000, 15_000)

/**
 * Describes a stack: its folder in deploy/, the images that it builds (as they are named after the project's name), its
 * settings, and more Compose files, relative to this folder.
 */
export function createStack(
  folder: string,
  images: string[],
  settings: Record<string, string> = {},
  files: string[] = []
) {
  const name = `plant-store-${folder}-${process.pid}`
  const variables = {
    COMPOSE_FILE: [
      'compose.yaml',
      ...['no-health-checks.yaml', ...files].map((file) => resolve(import.meta.dirname, file))
    ].join(':'),
    COMPOSE_PROJECT_NAME: name,
    COMPOSE_DISABLE_ENV_FILE: 'true',
    PLANT_STORE_IMAGE: `${name}-api`,
    SOURCE_DATE_EPOCH: String(sourceDateEpoch),
    PORT: '0',
    // A line for each request would take more time than the request.
    LOG_LEVEL: 'warn',
    ...settings
  }
  const project = openProject(join(root, 'deploy', folder), variables)
  const { compose } = project
  let lastId = 0
  let made: Promise<string> | undefined
  /** The access token of a caller. */
  const token = () => (made ??= compose('run', '--rm', '-T', 'setup', 'dev'))

  /** The name of a service's container. */
  const container = (service: string, index = 1) => `${name}-${service}-${index}`
  /** Runs a command in a service's container, and returns what it writes: not by Compose, which would first read all its files. */
  const exec = (service: string, ...command: string[]) => docker(['exec', container(service), ...command])

  return {
    ...project,
    name,
    token,
    exec,
    /** Runs statements in a database's container, each a transaction of its own unless they say otherwise, and returns their lines. */
    psql: async (service: string, user: string, ...statements: string[]) =>
      toLines(await exec(service, ...psql(user, 'plants', ...statements))),
    /** Runs `docker` with these arguments. */
    docker: (...args: string[]) => docker(args),
    /** Builds and starts everything, each part when what it depends on is there; shows the logs when that fails. */
    async up() {
      await compose('build', '--quiet')
      await token() // else the service would see it up to two seconds late
      await compose('up', '--detach').catch(async (error) => {
        process.stderr.write(await compose('logs', '--no-color', '--tail', '50'))
        throw error
      })
    },
    container,
    /** Returns for each container since when it runs, as a text that changes with each start; undefined if it does not run. */
    async runs(containers: string[]): Promise<(string | undefined)[]> {
      if (containers.length === 0) return []
      const format = '{{.State.Status}} {{.State.StartedAt}}'
      const states = await docker(['inspect', '--format', format, ...containers])
      return states.split('\n').map((state) => (state.startsWith('running ') ? state : undefined))
    },
    /** Ids for the plants of a check: negative, as those of the load are positive, and never given out twice. */
    takeIds: (count: number) => Array.from({ length: count }, () => --lastId),
    /** Ends a service's container by SIGKILL. */
    kill: (service: string, index = 1) => docker(['kill', '--signal', 'KILL', container(service, index)]),
    start: (service: string, index = 1) => docker(['start', container(service, index)]),
    /** Creates a plant of each id at its replica of the service, without the balancer, and returns the bodies of the responses. */
    async createAt(creates: { replica: string; id: number }[]): Promise<string[]> {
      const [first, ...others] = creates.map(({ replica, id }) => `${name}-${replica}=${id}`) as [string]
      const node = ['node', '-e', create, '--', await token(), first, ...others]
      return (await docker(['exec', first.replace(/=.*/, ''), ...node])).split('\n')
    },
    /** Removes containers, networks, volumes and images. */
    async down() {
      const faults = await docker(['ps', '--all', '--quiet', '--filter', `name=^${name}-fault`])
      if (faults !== '') await docker(['rm', '--force', ...faults.split('\n')])
      await compose('down', '--volumes', '--timeout', '0', '--remove-orphans')
      await docker(['image', 'rm', '--force', ...images.map((image) => `${name}-${image}`)])
    }
  }
}
