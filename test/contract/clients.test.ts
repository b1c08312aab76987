/** The programs in docs/clients.md, as they stand there, against a service whose first responses get lost on the way. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { catalogue } from '../../src/failures/catalogue.ts'
import { startService, token } from '../support/service.ts'

const manual = readFileSync(join(import.meta.dirname, '../../docs/clients.md'), 'utf8')
const programs = new Map(
  [...manual.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => [language, text as string])
)

/** What a proxy answers by itself: neither JSON nor UTF-8. */
const page = Buffer.from('<html>\n<title>502</title>\n<p>Passerelle erron\u00e9e\n</html>\n', 'latin1')

/** How each language runs a file, and how one finds that it is there. */
const runtimes: Record<string, { file: string; command: string[]; check: string[] }> = {
  sh: { file: 'plant.sh', command: ['sh'], check: ['curl', '--version'] },
  js: { file: 'plant.mjs', command: [process.execPath], check: [process.execPath, '--version'] },
  python: { file: 'plant.py', command: ['python3'], check: ['python3', '--version'] },
  go: { file: 'plant.go', command: ['go', 'run'], check: ['go', 'version'] }
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

/** Listens until teardown; gives the address. */
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

/** Passes a request on; gives the service's response. */
async function pass(request: Parameters<RequestListener>[0]) {
  const { authorization = '', 'content-type': type = '', 'idempotency-key': key } = request.headers
  const headers = { authorization, 'content-type': type, 'idempotency-key': String(key) }
  const response = await fetch(`${service.url}/plants`, {
    method: 'POST',
    headers,
    body: await buffer(request)
  })
  return { status: response.status, name: response.headers.get('error-name'), body: await response.text() }
}

t.test('the numbers that are worth another attempt are those whose advice says so', async (t) => {
  const [, sentence = ''] = /^After ([\d, and]+) send the same request again\./m.exec(manual) ?? []
  const entries = Object.values(catalogue).filter(({ advice }) => /\bagain\b/i.test(advice))
  t.strictSame(sentence.match(/\d+/g)?.map(Number), [...new Set(entries.map(({ error }) => error))].sort())
})

t.test('there is a program in each language', async (t) => {
  t.strictSame([...programs.keys()], Object.keys(runtimes))
})

t.test('no program needs /proc, which macOS does not have', async (t) => {
  for (const program of programs.values()) t.notMatch(program, '/proc/')
})

for (const [language, { file, command }] of Object.entries(runtimes)) {
  const skip = missing.includes(language) ? `what runs ${language} is not to be had` : false
  const program = programs.get(language) as string
  const start = async (t: Test, url: string, secret = token) => {
    const path = join(t.testdir(), file)
    await writeFile(path, program)
    return run([...command, path], { PLANTS_URL: url, PLANTS_TOKEN: secret })
  }

  t.test(`${language}: a proxy, a lost answer and a 503, then one plant`, { skip }, async (t) => {
    const keys: unknown[] = []
    const url = await listen(t, async (request, response) => {
      const answer = (status: number, type: string, body: string | Buffer) =>
        response.writeHead(status, { 'content-type': type, 'retry-after': '1' }).end(body)
      const attempt = keys.push(request.headers['idempotency-key'])
      if (attempt === 1) return answer(502, 'text/html', page)
      if (attempt === 2) return answer(504, 'application/json', '{"detail":"no answer in time"}')
      const { status, body } = await pass(request)
      if (attempt === 3) response.destroy()
      else if (attempt === 4) answer(400, 'application/json', '{"error":503,"message":"away"}')
      else answer(status, 'application/json', body)
    })
    const { code, stdout, stderr } = await start(t, url)
    t.equal(code, 0, stderr)
    t.strictSame(JSON.parse(stdout), { name: 'Monstera', tag: 'tropical' })
    t.equal(keys.length, 5)
    t.equal(new Set(keys).size, 1, 'one key for all attempts')
    t.match(keys[0], /^[\da-f-]{32,36}$/, 'of 128 bits')
    const [, id] = /(9223372036854775\d{3})/.exec(program) as RegExpExecArray
    t.strictSame(await service.rows('select name, tag from plants where id = $1', [id]), [
      { name: 'Monstera', tag: 'tropical' }
    ])
  })

  t.test(`${language}: a token that is not valid is refused once, with its message`, { skip }, async (t) => {
    let attempts = 0
    const url = await listen(t, async (request, response) => {
      attempts++
      const { status, name, body } = await pass(request)
      const headers = {
        'content-type': 'application/json',
        'error-name': `${name}`,
        'write-outcome': 'none'
      }
      response.writeHead(status, headers).end(body)
    })
    const { stdout, stderr } = await start(t, url, 'another-secret-0123456789')
    t.match(stdout + stderr, 'the bearer token is not valid')
    if (language !== 'sh') t.match(stderr, 'InvalidToken')
    if (language === 'js') t.match(stderr, "writeOutcome: 'none'")
    t.equal(attempts, 1)
  })
}
