/**
 * `npm run dev`: the service on 127.0.0.1, restarted on every change, with a PostgreSQL of its own by default.
 * Its data and token stay in .data, or in the directory that the argument names.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { watch } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import pretty from 'pino-pretty'
import { type Server, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { claim, database, directoryOf, root, tokenFile } from './data.ts'

const directory = directoryOf(process.argv[2])

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
let isStopping = false
let isRestarting = false
let hasGreeted = false
const log = pretty({
  translateTime: 'SYS:HH:MM:ss.l',
  singleLine: true,
  destination: process.stdout
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
// Nothing can be written to a terminal that was closed, and the database must be stopped even so.
for (const stream of [process.stdout, process.stderr]) stream.on('error', stop)
endWithParent()

if (postgres) {
  await createDatabase(postgres)
  env.DATABASE_URL = postgres.url(database)
}
const token = await chooseToken()
const migration = spawn(process.execPath, ['src/commands/migrate.ts'], {
  cwd: root,
  env,
  stdio: 'inherit'
})
const [code] = await once(migration, 'exit')
if (code === 0) {
  serve()
  restartOnChange()
} else {
  process.exitCode = 1
  await stop()
}

function serve() {
  // Its standard input is no terminal, so it ignores the SIGHUP of one that is closed. It ends with this process instead.
  const execArgv = ['--import', './dev/end-with-parent.ts']
  service = fork('src/server.ts', {
    cwd: root,
    env,
    execArgv,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc']
  })
  let metrics = ''
  createInterface({ input: service.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    log.write(`${line}\n`)
    metrics ||= /"msg":"Metrics at ([^"]+)"/.exec(line)?.[1] ?? ''
    const [, address] = /"msg":"Server listening at ([^"]+)"/.exec(line) ?? []
    if (address === undefined || hasGreeted) return
    hasGreeted = true
    greet(address, metrics)
  })
  service.once('exit', () => {
    if (isStopping || isRestarting) return
    // No change to a file mends a first start that failed.
    if (hasGreeted)
      process.stdout.write('The service has ended. It starts again when a file in src changes.\n')
    else {
      process.exitCode = 1
      stop()
    }
  })
}

/** Starts the service again whenever a file of its source has changed. */
function restartOnChange() {
  const restart = async () => {
    isRestarting = true
    await end(service)
    isRestarting = false
    if (!isStopping) serve()
  }
  let restarted = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  watch(join(root, 'src'), { recursive: true }, () => {
    // Saving one file can be several changes.
    clearTimeout(timer)
    timer = setTimeout(() => {
      restarted = restarted.then(restart)
    }, 200)
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
  const file = tokenFile(directory)
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

function giveUp(reason: string): never {
  process.stderr.write(`npm run dev: ${reason}\n`)
  process.exit(1)
}

/** Stops when npm was killed: the terminal is another's then, and nothing would end this process. */
function endWithParent() {
  const parent = process.ppid
  const look = () => {
    if (process.ppid !== parent) stop()
  }
  setInterval(look, 1_000).unref()
}

/** Ends a process by SIGTERM, and returns when it has ended. */
async function end(child: ChildProcess | undefined) {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

async function stop() {
  if (isStopping) return
  isStopping = true
  await end(service)
  await postgres?.stop()
  process.exit()
}
