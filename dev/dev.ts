/**
 * `npm run dev`: the service on 127.0.0.1, restarted on every change, with a PostgreSQL of its own by default.
 * Its data and token stay in .data, or in the directory that the argument names.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { stripVTControlCharacters } from 'node:util'
import pretty from 'pino-pretty'
import { type Server, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'

const root = join(import.meta.dirname, '..')
const directory = resolve(process.argv[2] ?? join(root, '.data'))
const database = 'plants'

const env: NodeJS.ProcessEnv = {
  HOST: '127.0.0.1',
  METRICS_PORT: '0',
  SHUTDOWN_DELAY_MS: '0',
  ...process.env
}
await mkdir(directory, { recursive: true }).catch(({ message }) =>
  giveUp(`${message}: name another directory: npm run dev -- DIRECTORY`)
)
const ownsDatabase = !env.DATABASE_URL && !env.DATABASE_URL_FILE
if (ownsDatabase && !(await claim(directory)))
  giveUp(
    `it runs already with the data in ${directory}: end it, or name another directory: npm run dev -- DIRECTORY`
  )
const postgres = ownsDatabase
  ? await startPostgres({ directory }).catch(({ message }) => {
      process.stderr.write(`${message}\n`)
      return giveUp(
        'PostgreSQL did not start: name an empty directory (npm run dev -- DIRECTORY), run npm ci --ignore-scripts=false, or set DATABASE_URL'
      )
    })
  : undefined
let service: ChildProcess | undefined
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)

if (postgres) {
  await createDatabase(postgres)
  env.DATABASE_URL = postgres.url(database)
}
const token = await chooseToken()
const migration = spawn(process.execPath, ['src/commands/migrate.ts'], { cwd: root, env, stdio: 'inherit' })
const [code] = await once(migration, 'exit')
if (code === 0) serve()
else {
  process.exitCode = 1
  await stop()
}

function serve() {
  const args = ['--watch', '--watch-preserve-output', 'src/server.ts']
  service = spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const log = pretty({ translateTime: 'SYS:HH:MM:ss.l', singleLine: true })
  let metrics = ''
  let greeted = false
  createInterface({ input: service.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    // No change to a file mends a first start that failed: the watcher would wait for one.
    if (!greeted && /^Failed running |Waiting for file changes/.test(stripVTControlCharacters(line))) {
      process.exitCode = 1
      stop()
      return
    }
    log.write(`${line}\n`)
    metrics ||= /"msg":"Metrics at ([^"]+)"/.exec(line)?.[1] ?? ''
    const [, address] = /"msg":"Server listening at ([^"]+)"/.exec(line) ?? []
    if (address === undefined || greeted) return
    greeted = true
    greet(address, metrics)
  })
}

function greet(address: string, metrics: string) {
  const plant = `{"id":${Date.now()},"name":"Monstera","tag":"tropical"}`
  process.stdout.write(`
  reference ${env.DOCS === 'off' ? '(DOCS=off)' : `${address}/docs`}
  metrics   ${metrics}
  service   ${address}${env.BASE_PATH ?? ''}/plants
  token     ${token ?? '(yours, from AUTH_TOKENS)'}
  database  ${postgres?.url(database) ?? '(yours, from DATABASE_URL)'}

  curl -i ${address}${env.BASE_PATH ?? ''}/plants -H 'Authorization: Bearer ${token ?? 'TOKEN'}' -H 'Content-Type: application/json' -d '${plant}'

`)
}

/** Takes the first configured token in clear text, or makes one that the next run finds again. */
async function chooseToken(): Promise<string | undefined> {
  if (env.AUTH_TOKENS_FILE) return undefined
  if (env.AUTH_TOKENS) {
    const entries = env.AUTH_TOKENS.split(',').map((entry) => entry.trim().split(':'))
    return entries.find(({ length }) => length <= 2)?.at(-1)
  }
  const file = join(directory, 'token')
  const made = await readFile(file, 'utf8').catch(async () => {
    const fresh = randomBytes(24).toString('base64url')
    await writeFile(file, fresh, { mode: 0o600 })
    return fresh
  })
  env.AUTH_TOKENS = `dev:${made}`
  return made
}

async function createDatabase(server: Server) {
  const url = server.url('postgres')
  const [existing] = await query(url, 'select from pg_database where datname = $1', [database])
  if (existing === undefined) await query(url, `create database ${database}`)
}

/** Returns whether the directory is this process's own, until it ends: it holds a socket of the directory's name. */
async function claim(directory: string): Promise<boolean> {
  // Not in the directory: a socket's path has at most 107 bytes, and some file systems have no sockets.
  const path = join(tmpdir(), `plant-store-${hash('sha256', directory).slice(0, 16)}`)
  const socket = connect(path)
  const isHeld = await once(socket, 'connect').then(
    () => true,
    () => false
  )
  socket.destroy()
  if (isHeld) return false
  await rm(path, { force: true }) // what a killed process has left
  createServer((socket) => socket.destroy())
    .listen(path)
    .unref()
  return true
}

function giveUp(reason: string): never {
  process.stderr.write(`npm run dev: ${reason}\n`)
  process.exit(1)
}

async function stop() {
  if (service && service.exitCode === null) {
    service.kill('SIGTERM')
    await once(service, 'exit')
  }
  await postgres?.stop()
  process.exit()
}
