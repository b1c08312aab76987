/** The scripts of long-lived processes, run as a supervisor runs them: what is sent to npm reaches the process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { execute } from '../harness/execute.ts'
import { createDatabase, query } from '../harness/postgres/database.ts'
import { freePort } from '../harness/postgres/embedded-postgres.ts'
import { headers, patientSettings, token } from '../harness/service/service.ts'
import { until } from '../harness/time/until.ts'

const root = join(import.meta.dirname, '..')

/** Without what tap has Node load, which neither a compiler nor npm suits. */
const plain = ['-u', 'NODE_OPTIONS']

/** A directory in which `npm run build` has been, outside the checkout. */
async function build(t: Test) {
  const link = (path: string) => t.fixture('symlink', join(root, path))
  const directory = t.testdir({
    'package.json': link('package.json'),
    node_modules: link('node_modules'),
    migrations: link('migrations'),
    ops: link('ops'),
    public: link('public')
  })
  const tsc = join(root, 'node_modules/.bin/tsc')
  await execute('env', [...plain, tsc, '-p', 'tsconfig.build.json', '--outDir', `${directory}/dist`], {
    cwd: root
  })
  return directory
}

/** Runs a script of package.json in a directory; what it has left behind is ended at teardown. */
function runScript(t: Test, cwd: string, script: string[], env: Record<string, string>) {
  const npm = spawn('env', [...plain, 'npm', 'run', ...script], {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true // a process group of its own
  })
  let output = ''
  npm.stdout.setEncoding('utf8').on('data', (text) => (output += text))
  const ended = once(npm, 'exit')
  // Not before the last process that writes to it has ended.
  const closed = once(npm, 'close')
  t.teardown(() => {
    try {
      process.kill(-(npm.pid as number), 'SIGINT')
    } catch {} // nothing is left
    return closed
  })
  return { npm, ended, output: () => output }
}

t.test('SIGTERM to `npm start`: the service responds to what it has, and ends before npm', async (t) => {
  const directory = await build(t)
  const databaseUrl = await createDatabase(t, { migrated: false })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const env = {
    ...patientSettings,
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `tester:${token}`,
    HOST: '127.0.0.1',
    PORT: String(port),
    METRICS_PORT: 'off',
    DOCS: 'off',
    SHUTDOWN_DELAY_MS: '0'
  }
  const migration = runScript(t, directory, ['migrate'], env)
  t.strictSame(await migration.ended, [0, null])
  const service = runScript(t, directory, ['start'], env)
  await until('the service listens', () => fetch(`${url}/livez`))
  const post = (id: number) =>
    fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ id, name: 'Moss' }) })
  t.equal((await post(1)).status, 200)

  service.npm.kill('SIGTERM')
  t.strictSame(await service.ended, [0, null])
  t.match(service.output(), /"msg":"shut down"/, 'it has drained')
  await t.rejects(post(2), { cause: { code: 'ECONNREFUSED' } }, 'its port is free')
})

t.test('SIGTERM to `npm run dev`: the service and its PostgreSQL end before npm', async (t) => {
  const dev = runScript(t, root, ['dev', '--', t.testdir({})], { PORT: '0' })
  const printed = () => /service {3}(\S+)\n.*database {2}(\S+)\n/s.exec(dev.output())
  const [, service = '', database = ''] = await until('it listens', printed)
  dev.npm.kill('SIGTERM')
  t.strictSame(await dev.ended, [0, null])
  await t.rejects(fetch(service), { cause: { code: 'ECONNREFUSED' } })
  await t.rejects(query(database, 'select'), { code: 'ECONNREFUSED' })
})
