/** The programs of docs/clients, through lost responses and outages of the database. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createDatabase } from '../../harness/postgres/database.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { headers, startService, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { catalogue } from '../../src/failures/catalogue.ts'

const manual = readFileSync(join(import.meta.dirname, '../../docs/clients.md'), 'utf8')
const directory = join(import.meta.dirname, '../../docs/clients')

/** What a proxy responds by itself: neither JSON nor UTF-8. */
const page = Buffer.from('<html>\n<title>502</title>\n<p>Passerelle erron\u00e9e\n</html>\n', 'latin1')

/** How the programs of each language run, and how one finds that what runs them is there. */
const runtimes: Record<string, { command: string[]; check: string[] }> = {
  sh: { command: ['sh'], check: ['curl', '--version'] },
  mjs: { command: [process.execPath], check: [process.execPath, '--version'] },
  py: { command: ['python3'], check: ['python3', '--version'] },
  go: { command: ['go', 'run'], check: ['go', 'version'] }
}

interface Result {
  code: number | string
  stdout: string
  stderr: string
}

function run([command = '', ...args]: string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return new Promise((resolve) => {
    execFile(command, args, { env: { ...process.env, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr })
    )
  })
}

/** Listens until teardown, and returns the address. */
async function listen(t: Test, listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/plants`
}

const service = await startService(t)
const checks = await Promise.all(Object.values(runtimes).map(({ check }) => run(check)))
const missing = Object.keys(runtimes).filter((_, index) => checks[index]?.code !== 0)

/** Sends a request on to a service, and returns the response. */
async function pass(request: Parameters<RequestListener>[0], url = service.url) {
  const { authorization = '', 'content-type': type = '', 'idempotency-key': key } = request.headers
  const response = await fetch(`${url}/plants`, {
    method: 'POST',
    headers: { authorization, 'content-type': type, 'idempotency-key': String(key) },
    body: await buffer(request)
  })
  return {
    status: response.status,
    headers: Object.fromEntries(
      [...response.headers].filter(([name]) => !['connection', 'keep-alive'].includes(name))
    ),
    body: await response.text()
  }
}

/** The outcome that a program reports for all its attempts. */
const claim = (text: string) => /write ?outcome: '?(\w+)/i.exec(text)?.[1]

t.test('the numbers that are worth another attempt are those that the catalogue retries', async (t) => {
  const [, sentence = ''] = /After ([\d, ]+) or no response, send the same request again/.exec(manual) ?? []
  const entries = Object.values(catalogue).filter(({ retry }) => retry !== 'never')
  t.strictSame(sentence.match(/\d+/g)?.map(Number), [...new Set(entries.map(({ error }) => error))].sort())
})

t.test('there is a program in each language, which the manual links', async (t) => {
  const files = Object.keys(runtimes).map((language) => `create-plant.${language}`)
  t.strictSame(readdirSync(directory).sort(), files.toSorted())
  for (const file of files) t.match(manual, `(clients/${file})`)
})

t.jobs = Object.keys(runtimes).length

for (const [language, { command }] of Object.entries(runtimes)) {
  const skip = missing.includes(language) ? `this machine cannot run ${language}` : false
  const options = { skip, buffered: true }
  const path = join(directory, `create-plant.${language}`)
  const program = readFileSync(path, 'utf8')
  const [, id] = /(9223372036854775\d{3})/.exec(program) as RegExpExecArray
  const start = (url: string, env: NodeJS.ProcessEnv = {}) =>
    run([...command, path], { PLANTS_URL: url, PLANTS_TOKEN: token, ...env })

  t.test(`${language}: the program needs no /proc, which macOS does not have`, async (t) => {
    t.notMatch(program, '/proc/')
  })

  t.test(`${language}: a proxy, a lost response and a 503, then one plant`, options, async (t) => {
    const keys: unknown[] = []
    const url = await listen(t, async (request, response) => {
      const respond = (status: number, type: string, body: string | Buffer) =>
        response.writeHead(status, { 'content-type': type, 'retry-after': '1' }).end(body)
      const attempt = keys.push(request.headers['idempotency-key'])
      if (attempt === 1) return respond(502, 'text/html', page)
      if (attempt === 2) return respond(504, 'application/json', '{"detail":"no response in time"}')
      if (attempt === 3)
        return respond(504, 'application/json', '{"error":"Gateway Timeout","message":"late"}')
      if (attempt === 4) return respond(504, 'application/json', '{"error":504,"message":"late"}')
      const { status, body } = await pass(request)
      if (attempt === 5) response.destroy()
      else if (attempt === 6) respond(400, 'application/json', '{"error":503,"message":"away"}')
      else respond(status, 'application/json', body)
    })
    const { code, stdout, stderr } = await start(url)
    t.equal(code, 0, stderr)
    t.strictSame(JSON.parse(stdout), { name: 'Monstera', tag: 'tropical' })
    t.equal(keys.length, 7)
    t.equal(new Set(keys).size, 1, 'one key for all attempts')
    t.match(keys[0], /^[\da-f-]{32,36}$/, 'of 128 bits')
    t.strictSame(await service.rows('select name, tag from plants where id = $1', [id]), [
      { name: 'Monstera', tag: 'tropical' }
    ])
  })

  t.test(
    `${language}: a token that is not valid is refused once, and all of it is told`,
    options,
    async (t) => {
      let attempts = 0
      let requestId = ''
      const url = await listen(t, async (request, response) => {
        attempts++
        const { status, headers, body } = await pass(request)
        requestId = headers['x-request-id'] as string
        response.writeHead(status, headers).end(body)
      })
      const { code, stdout, stderr } = await start(url, { PLANTS_TOKEN: 'another-secret-0123456789' })
      t.equal(code, 1)
      t.equal(stdout, '')
      for (const told of ['401', 'InvalidToken', 'the bearer token is not valid', requestId])
        t.match(stderr, told)
      t.equal(claim(stderr), 'none')
      t.equal(attempts, 1)
    }
  )

  t.test(`${language}: what it reports after an outage is what the table has`, options, async (t) => {
    const databaseUrl = new URL(await createDatabase(t))
    const proxy = await startProxy(t, Number(databaseUrl.port))
    databaseUrl.port = String(proxy.port)
    const service = await startService(t, {
      DATABASE_URL: databaseUrl.href,
      WRITE_DEADLINE_MS: String(scaled(1_500))
    })
    let outcomes: unknown[] = []
    let secondAttempt = () => {}
    const url = await listen(t, async (request, response) => {
      if (outcomes.length === 1) secondAttempt()
      const { status, headers, body } = await pass(request, service.url)
      outcomes.push(headers['write-outcome'])
      response.writeHead(status, headers).end(body)
    })
    const recover = () => {
      proxy.respond()
      proxy.cut()
    }
    const create = () =>
      service.post({ id: 1, name: 'n' }, { headers: { ...headers, 'idempotency-key': 'before' } })
    /** Starts the program on a service that is connected, with a database that is away as `strike` has it. */
    const meet = async (strike: () => unknown, seconds: number) => {
      recover()
      await until('the service creates', create, ({ status }) => status === 200)
      outcomes = []
      await strike()
      const result = await start(url, { PLANTS_RETRY_SECONDS: String(seconds) })
      recover()
      const stored = await service.rows('select name, tag from plants where id = $1', [id])
      await service.rows('delete from plants where id = $1', [id])
      return { ...result, stored }
    }
    const loseCommit = () => {
      proxy.lose(1)
      proxy.fallSilent()
    }
    const patience = Math.ceil(scaled(6_000) / 1_000)

    const never = await meet(async () => {
      proxy.fallSilent()
      proxy.cut()
      await until(
        'the service refuses',
        create,
        (response) => response.headers['error-name'] === 'Unavailable'
      )
    }, patience)
    t.equal(never.code, 1)
    t.equal(claim(never.stderr), 'none')
    t.strictSame(never.stored, [])

    const once = await meet(loseCommit, patience)
    t.equal(outcomes[0], 'unknown')
    t.equal(outcomes.at(-1), 'none', 'the last attempt knows nothing of the first')
    t.equal(once.code, language === 'sh' ? 2 : 1)
    t.equal(claim(once.stderr), 'unknown')
    t.strictSame(once.stored, [{ name: 'Monstera', tag: 'tropical' }])

    secondAttempt = recover
    const back = await meet(loseCommit, 600)
    t.equal(outcomes[0], 'unknown')
    t.equal(back.code, 0, back.stderr)
    t.strictSame(JSON.parse(back.stdout), { name: 'Monstera', tag: 'tropical' })
    t.strictSame(back.stored, [{ name: 'Monstera', tag: 'tropical' }])
  })
}
