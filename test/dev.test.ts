/** `npm run dev`: what it prints works, it leaves nothing running, and the next run continues where it ended; which
 * PostgreSQL tests take. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { delimiter } from 'node:path'
import t, { type Test } from 'tap'
import { execute } from '../harness/execute.ts'
import { query } from '../harness/postgres/query.ts'
import { run, start } from '../harness/service/process.ts'

/** What a machine without curl runs in its place. */
const substitute = `#!/usr/bin/env node
const [, url, , authorization, , contentType, , body] = process.argv.slice(2)
const headers = Object.fromEntries([authorization, contentType].map((header) => header.split(': ')))
const response = await fetch(url, { method: 'POST', headers, body })
console.log('HTTP/1.1 ' + response.status + ' OK\\r\\n\\r\\n' + await response.text())
`

/** Starts `npm run dev` with its data in a directory, and returns what it prints. */
async function startDev(t: Test, directory: string, HOST?: string) {
  const dev = start(t, ['dev/dev.ts', directory], { PORT: '0', ...(HOST && { HOST }) })
  // SIGKILL would leave its PostgreSQL running.
  t.teardown(() => {
    dev.kill('SIGINT')
    return dev.ended
  })
  const printed =
    /reference (\S+)\n {2}metrics {3}(\S+)\n {2}service {3}(\S+)\n {2}token {5}(\S+)\n {2}database {2}(\S+)\n\n {2}(curl .*)\n\n/
  const [, reference, metrics = '', service, token, database = '', curl = ''] = await dev.output(printed)
  return { ...dev, reference, metrics, service, token, database, curl }
}

const names = (database: string) => query(database, 'select name, tag from plants order by created_at')

t.test('npm run dev: its curl line creates a plant, SIGINT ends all, the next run continues', async (t) => {
  const path = t.testdir({ bin: { 'curl.mjs': substitute }, data: {} })
  const bin = `${path}/bin`
  await execute('sh', ['-c', 'mv curl.mjs curl && chmod +x curl'], { cwd: bin })
  const shell = (line: string) =>
    execute('sh', ['-c', line], { env: { PATH: `${process.env.PATH}${delimiter}${bin}` } })
  const monstera = { name: 'Monstera', tag: 'tropical' }

  const first = await startDev(t, `${path}/data`)
  t.match(first.service, /^http:\/\/127\.0\.0\.1:\d+\/plants$/)
  const stdout = await shell(first.curl)
  t.match(stdout, /^HTTP\/1\.1 200 OK\r\n/)
  t.strictSame(JSON.parse(stdout.split('\r\n').at(-1) ?? ''), monstera)
  t.strictSame(await names(first.database), [monstera])
  const page = await (await fetch(first.metrics)).text()
  t.match(page, /^plant_store_plants_total\{outcome="created"\} 1$/m)

  first.kill('SIGINT')
  t.match(await first.ended, { code: 0, stderr: '' })
  await t.rejects(names(first.database), { code: 'ECONNREFUSED' })
  await t.rejects(fetch(first.service ?? ''), { cause: { code: 'ECONNREFUSED' } })

  t.match(first.reference, `/docs#token=${first.token}`)

  const second = await startDev(t, `${path}/data`, '0.0.0.0')
  t.match(second.reference, /\/docs$/, 'no token in a link to what other machines reach')
  t.equal(second.token, first.token)
  t.strictSame(await names(second.database), [monstera])
  await shell(second.curl)
  t.strictSame(await names(second.database), [monstera, monstera])
  second.kill('SIGTERM')
  t.match(await second.ended, { code: 0, stderr: '' })
  await t.rejects(names(second.database), { code: 'ECONNREFUSED' })
})

t.test('a second npm run dev ends with one line, and the first serves on', async (t) => {
  const path = t.testdir({ first: {}, second: {} })
  const directory = `${path}/first`
  const first = await startDev(t, directory)
  const refusal = (reason: string) => ({ code: 1, stdout: '', stderr: `npm run dev: ${reason}\n` })
  t.strictSame(
    await run(t, ['dev/dev.ts', directory]),
    refusal(
      `it runs already with the data in ${directory}: end it, or name another directory: npm run dev -- DIRECTORY`
    )
  )
  const { host, port: PORT } = new URL(first.service ?? '')
  t.strictSame(
    await run(t, ['dev/dev.ts', `${path}/second`], { PORT }),
    refusal(`another process listens on ${host}: PORT=0 npm run dev takes a free port`)
  )
  t.strictSame(await names(first.database), [])
})

t.test('npm run dev ends where its first start fails', async (t) => {
  const env = { PORT: '0', RATE_LIMIT: 'x' }
  t.match(await run(t, ['dev/dev.ts', t.testdir({})], env), {
    code: 1,
    stderr: 'plant-store: RATE_LIMIT must be an integer from 0 to 1000000\n'
  })
})

t.test('tests take the embedded PostgreSQL where Docker has no image of it', async (t) => {
  const engine = createServer(({ method, url = '' }, response) => {
    const body = method === 'POST' ? { message: 'no such host' } : url.includes('/containers/') ? [] : {}
    response.writeHead(method === 'POST' ? 500 : url.includes('/images/') ? 404 : 200, {
      'content-type': 'application/json'
    })
    response.end(JSON.stringify(body))
  })
  t.teardown(() => engine.close())
  await once(engine.listen(0, '127.0.0.1'), 'listening')
  const { port } = engine.address() as AddressInfo
  const env = { DOCKER_HOST: `tcp://127.0.0.1:${port}`, HOME: t.testdir({}) }
  t.match(await run(t, ['dev/with-postgres.ts', 'printenv', 'TEST_DATABASE_URL'], env), {
    code: 0,
    stdout: /^PostgreSQL for the tests: embedded, PostgreSQL 18\npostgres:/,
    stderr:
      /^Docker has no container of postgres:18, the tests take the embedded PostgreSQL: .*no such host.*\n$/
  })
})

t.test('npm run dev with a database that cannot be migrated ends with exit code 1', async (t) => {
  const env = { DATABASE_URL: 'thyme', AUTH_TOKENS: 'a-secret-of-the-tests' }
  t.strictSame(await run(t, ['dev/dev.ts', t.testdir({})], env), {
    code: 1,
    stdout: '',
    stderr: 'plant-store: DATABASE_URL must be a URL such as postgres://user:password@host:5432/database\n'
  })
})
