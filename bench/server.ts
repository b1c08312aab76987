/** The servers under test: each is a process of its own with production's settings, on a port that the system chooses. */
import { type StdioOptions, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { open, readFile, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { execute } from '../test/support/execute.ts'
import { inSeconds, makeKey, signToken, toJwks } from '../test/support/provider.ts'

const root = join(import.meta.dirname, '..')
const peersDirectory = join(import.meta.dirname, 'peers')

/** The secret of the caller `bench`. */
export const token = 'bench-secret-0123456789abcdef'

/** How long a server may take to be ready, on a machine that has much else to do. */
const startLimitMs = 120_000
/** How long a server may take to end. */
const endLimitMs = 60_000

/** What a server is started from: Node's arguments, and where. */
export interface Program {
  readonly name: string
  readonly args: string[]
  readonly directory: string
  /** The token of the load, and the settings by which the program takes it, if it is not the usual one. */
  readonly access?: { token: string; settings: Record<string, string> }
}

/** A server that listens. */
export interface Server {
  /** Where plants are posted. */
  readonly url: string
  readonly pid: number
  /** Empties the log, which is a file on disk: hours of load would fill it. */
  clearLog(): Promise<void>
  stop(): Promise<void>
}

/** Returns Node's arguments in one of the npm scripts of a directory, besides the file of settings. */
export function readScript(directory: string, name: string): string[] {
  const { scripts } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))
  const words: string[] = scripts[name].split(' ')
  return words.filter((word) => /^--(?!env-file)|\.js$/.test(word))
}

/** The service as `npm start` starts it, from this checkout or from another that has been built. */
export const ownProgram = (directory = root): Program => ({
  name: 'service',
  args: readScript(directory, 'start'),
  directory
})

/** Makes the service's table in an empty database, by the migrations of a program's directory. */
export async function migrate({ directory: cwd }: Program, databaseUrl: string): Promise<void> {
  const env = { DATABASE_URL: databaseUrl }
  await execute(process.execPath, readScript(cwd, 'migrate'), { cwd, env })
}

/** The service under a load with a JWT of an identity provider. */
export function ownProgramByJwt(): Program {
  const key = makeKey('RS256')
  const [iss, aud] = ['https://issuer.test/realms/main', 'https://plants.test']
  const times = { iat: inSeconds(0), exp: inSeconds(86_400) }
  const claims = {
    iss,
    aud,
    sub: randomUUID(),
    azp: 'bench',
    jti: randomUUID(),
    scope: 'plants',
    ...times
  }
  const token = signToken(key.privateKey, { alg: key.alg, kid: key.kid, typ: 'at+jwt' }, claims)
  const settings = { AUTH_JWT_ISSUER: iss, AUTH_JWT_AUDIENCE: aud, AUTH_JWT_KEYS: toJwks(key) }
  return { ...ownProgram(), name: 'service, JWT', access: { token, settings } }
}

/**
 * The peers: the same operation with authentication, validation, a log and one insert a request, as the documentation of
 * each recommends. Fastify shows what this service adds to its own framework. Express with node-postgres is what Node
 * services are most often built with, by the registry's downloads. Hono with Postgres.js is what people choose who want
 * a faster one.
 */
export const peers: Program[] = [
  { name: 'Fastify as documented', args: ['fastify.js'], directory: peersDirectory },
  { name: 'Express + pg', args: ['express.js'], directory: peersDirectory },
  { name: 'Hono + Postgres.js', args: ['hono.js'], directory: peersDirectory }
]

/** The limit: what Node and Fastify alone can do over the service's own group commit, with production's flags. */
export const limitPrograms: Program[] = ['fastify', 'node'].map((name) => ({
  name: `limit: bare ${name === 'node' ? 'node:http' : 'Fastify'}`,
  args: [
    ...ownProgram().args.filter((argument) => argument.startsWith('--')),
    join(import.meta.dirname, `limit/${name}.ts`)
  ],
  directory: root
}))

/** Installs the packages of the peers, in the versions that their package.json names. */
export async function installPeers(): Promise<void> {
  process.stdout.write('installing the peers\n')
  const flags = [
    '--no-package-lock',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error'
  ]
  await execute('npm', ['install', ...flags], { cwd: peersDirectory })
}

/**
 * Starts a server on a database; `directory` takes its log, and `more` adds to its settings. Throws if it is not ready within
 * two minutes.
 */
export async function startServer(
  program: Program,
  databaseUrl: string,
  directory: string,
  more: Record<string, string> = {}
): Promise<Server> {
  const { name, args, directory: cwd, access } = program
  const began = performance.now()
  const log = join(directory, 'log')
  const output = await open(log, 'a')
  await output.truncate()
  const { PATH } = process.env
  const settings = { NODE_ENV: 'production', HOST: '127.0.0.1', PORT: '0', METRICS_PORT: '0' }
  const given = {
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `bench:${token}`,
    AUTH_TOKEN: token,
    ...access?.settings
  }
  const stdio: StdioOptions = ['ignore', output.fd, output.fd]
  const child = spawn(process.execPath, args, {
    cwd,
    env: { PATH, ...settings, ...given, ...more },
    stdio
  })
  await output.close()
  // For an interruption of the benchmark.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const ended = once(child, 'exit').then(() => process.off('exit', kill))
  const stop = async () => {
    child.kill('SIGTERM')
    const limit = setTimeout(kill, endLimitMs)
    await ended
    clearTimeout(limit)
  }
  for (;;) {
    const text = await readFile(log, 'utf8')
    const [, port] = /listening at http:\/\/127\.0\.0\.1:(\d+)/.exec(text) ?? []
    const url = `http://127.0.0.1:${port}/plants`
    if (port && child.pid) return { url, pid: child.pid, clearLog: () => truncate(log), stop }
    if (child.exitCode !== null || performance.now() > began + startLimitMs) {
      kill()
      throw new Error(`${name} does not listen: ${text.slice(-2000)}`)
    }
    await sleep(100)
  }
}
