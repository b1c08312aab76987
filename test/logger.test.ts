/** The log on standard output: nothing of it waits for long, and none is lost or doubled. */
import { execFileSync, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { exchange, parseResponses, request } from '../harness/http/raw.ts'
import { createDatabase } from '../harness/postgres/database.ts'
import { parseMetrics } from '../harness/service/metrics-page.ts'
import { startProcess } from '../harness/service/process.ts'
import { post, success } from '../harness/service/service.ts'
import { scaled } from '../harness/time/slowness.ts'
import { until } from '../harness/time/until.ts'

const logger = join(import.meta.dirname, '../src/logger.ts')

/** Runs a program that has a logger; it is killed at teardown. */
function run(t: Test, program: string, stdio: StdioOptions = ['ignore', 'pipe', 'inherit']) {
  const source = `import { createLogger } from ${JSON.stringify(logger)}; const log = createLogger('info'); ${program}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], { stdio })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

const messages = (log: string) =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).msg)

const lostMessage = 'lines of the log were lost'

/** How many lines a log says that it has lost. It says so in one line. */
function lossOf(log: string): number {
  const lines = log.split('\n').filter((line) => line.includes(lostMessage))
  const { time, ...line } = JSON.parse(lines[0] ?? '{}')
  if (lines.length !== 1 || line.level !== 40) throw new Error(`not one warning: ${lines}`)
  return line.lines
}

/** A pipe with a name, as the log of a container: nobody reads it but the test. */
function openFifo(t: Test) {
  const path = join(t.testdir({}), 'log')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(path, 'w')
  t.teardown(() => {
    closeSync(reader)
    closeSync(writer)
  })
  return {
    writer,
    /** Reads 16 kB at most; nothing where nothing is there. */
    read() {
      const chunk = Buffer.alloc(16_384)
      try {
        return chunk.toString('utf8', 0, readSync(reader, chunk))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return ''
        throw error
      }
    }
  }
}

/** Logs lines of 130 bytes, numbered, to a pipe. Standard error says when all are logged, and how many were lost. */
function runWithFifo(t: Test, lines: number, end: string) {
  const fifo = openFifo(t)
  const program = `
    import { lostLines } from ${JSON.stringify(logger)}
    for (let n = 0; n < ${lines}; n++) log.info({ text: 'x'.repeat(70) }, String(n))
    process.stderr.write('logged, ' + lostLines() + ' lost')
    ${end}`
  const child = run(t, program, ['ignore', fifo.writer, 'pipe'])
  const ended = once(child, 'exit')
  let read = ''
  return {
    child,
    ended,
    logged: async () => Number(/\d+/.exec(String((await once(child.stderr as Readable, 'data'))[0]))?.[0]),
    /** Reads until the text matches or until the process has ended and the pipe is empty. */
    async readUntil(pattern: RegExp, pauseMs: number) {
      while (!pattern.test(read)) {
        const chunk = fifo.read()
        if (chunk === '' && child.exitCode !== null) break
        read += chunk
        await sleep(pauseMs)
      }
      return read
    }
  }
}

const never = /^(?!)/

t.test('a line is written while the process runs', async (t) => {
  const child = run(t, `log.info('alone'); setInterval(() => {}, 60_000)`)
  const [chunk] = await once(child.stdout as Readable, 'data')
  t.strictSame(messages(String(chunk)), ['alone'])
})

t.test('a fatal line is written at once, with those before it', async (t) => {
  const child = run(t, `log.info('before'); log.fatal('last'); process.kill(process.pid, 'SIGKILL')`)
  t.strictSame(messages(await text(child.stdout as Readable)), ['before', 'last'])
})

t.test('the exit writes what is left', async (t) => {
  const child = run(t, `for (let n = 0; n < 500; n++) log.info(String(n)); process.exit()`)
  t.strictSame(
    messages(await text(child.stdout as Readable)),
    Array.from({ length: 500 }, (_, n) => String(n))
  )
})

t.test('after a write that failed once, no line is lost or repeated', async (t) => {
  const program = `
    import fs from 'node:fs'
    const { writeSync } = fs
    let fails = true
    fs.writeSync = (...given) => {
      if (!fails) return writeSync(...given)
      fails = false
      throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
    }
    for (let n = 0; n < 1_500; n++) try { log.info(String(n)) } catch {}
    process.exit()`
  const child = run(t, program)
  t.strictSame(
    messages(await text(child.stdout as Readable)),
    Array.from({ length: 1_500 }, (_, n) => String(n))
  )
})

t.test('with a full disk the process keeps running and ends, and counts all lines as lost', async (t) => {
  const program = `
    import { lostLines } from ${JSON.stringify(logger)}
    for (let n = 0; n < 20_000; n++) log.info({ n, text: 'x'.repeat(100) }, 'a line')
    const beyond = lostLines()
    process.on('exit', (code) => console.error(JSON.stringify({ code, beyond, lost: lostLines() })))
    log.fatal('the last one')`
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const child = run(t, program, ['ignore', full, 'pipe'])
  const { code, beyond, lost } = JSON.parse(await text(child.stderr as Readable))
  t.equal(code, 0)
  // 3 MB were logged, and 1 MiB is kept.
  t.ok(beyond > 10_000 && beyond < 16_000, `${beyond} lines were lost`)
  t.equal(lost, 20_001)
})

t.test('when the disk has room again, what was kept is written, and how much was lost', async (t) => {
  const program = `
    import fs from 'node:fs'
    import { lostLines } from ${JSON.stringify(logger)}
    const { writeSync } = fs
    let isFull = true
    fs.writeSync = (...given) => {
      if (!isFull) return writeSync(...given)
      throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
    }
    let n = 0
    for (; lostLines() === 0; n++) log.info(String(n))
    isFull = false
    for (const end = n + 1_000; n < end; n++) log.info(String(n))
    console.error(JSON.stringify({ logged: n, lost: lostLines() }))
    process.exit()`
  const path = join(t.testdir({}), 'log')
  const file = openSync(path, 'w')
  t.teardown(() => closeSync(file))
  const child = run(t, program, ['ignore', file, 'pipe'])
  const report = await text(child.stderr as Readable)
  const written = readFileSync(path, 'utf8')
  const { logged, lost } = JSON.parse(report)
  const lines = messages(written)
  const gap = lines.indexOf(lostMessage)
  t.equal(lost, lossOf(written))
  t.ok(lost > 0 && lost < 500, `${lost} lines were lost, about a chunk`)
  const numbers = Array.from({ length: logged }, (_, n) => String(n))
  t.strictSame(lines, [...numbers.slice(0, gap), lostMessage, ...numbers.slice(gap + lost)])
})

t.test('without a reader the process keeps running, and counts the lines that it loses', async (t) => {
  const program = `
    import { lostLines } from ${JSON.stringify(logger)}
    process.stdin.once('end', () => {
      for (let n = 0; n < 20_000; n++) log.info({ n, text: 'x'.repeat(100) }, 'a line')
      console.error(lostLines())
    }).resume()`
  const child = run(t, program, ['pipe', 'pipe', 'pipe'])
  child.stdout?.destroy()
  child.stdin?.end()
  t.ok(Number(await text(child.stderr as Readable)) > 10_000)
})

t.test('nobody reads: nothing waits; then: the kept lines, and how many were lost', async (t) => {
  const { logged, readUntil } = runWithFifo(t, 20_000, 'setInterval(() => {}, 60_000)')
  const lost = await logged()
  const lines = await readUntil(/lines of the log were lost"}\n/, 0)
  t.equal(lossOf(lines), lost)
  const numbers = Array.from({ length: 20_000 - lost }, (_, n) => String(n))
  t.strictSame(messages(lines), [...numbers, lostMessage])
})

t.test('an exit with a slow reader loses nothing', async (t) => {
  const { logged, readUntil, ended } = runWithFifo(t, 1_500, `log.info('shut down'); process.exit(0)`)
  t.equal(await logged(), 0)
  const numbers = Array.from({ length: 1_500 }, (_, n) => String(n))
  t.strictSame(messages(await readUntil(never, 20)), [...numbers, 'shut down'])
  t.strictSame(await ended, [0, null])
})

t.test('an exit with a reader that comes back says how many lines were lost', async (t) => {
  const { logged, readUntil } = runWithFifo(t, 20_000, `log.info('one more'); process.exit(0)`)
  const lost = await logged()
  t.equal(lossOf(await readUntil(never, 0)), lost + 1)
})

t.test('an exit without a reader has its code, and counts what it has not written as lost', async (t) => {
  const { child, logged, readUntil, ended } = runWithFifo(
    t,
    1_500,
    `process.on('exit', () => process.stderr.write('ended, ' + lostLines() + ' lost')); process.exit(3)`
  )
  t.equal(await logged(), 0)
  const lost = Number(/ended, (\d+)/.exec(await text(child.stderr as Readable))?.[1])
  t.strictSame(await ended, [3, null])
  const written = (await readUntil(never, 0)).split('\n').length - 1
  t.ok(lost > 0)
  t.equal(written + lost, 1_500)
})

t.test('a terminal that shows nothing stops nothing', async (t) => {
  const done = join(t.testdir({}), 'done')
  const program = `
    import { createLogger } from ${JSON.stringify(logger)}
    import { writeFileSync } from 'node:fs'
    const log = createLogger('info')
    for (let n = 0; n < 20_000; n++) log.info({ text: 'x'.repeat(70) }, String(n))
    writeFileSync(${JSON.stringify(done)}, String(process.stdout.isTTY))`
  const file = join(t.testdir({ 'log.mjs': program }), 'log.mjs')
  // It reads the terminal no further once nobody reads what it writes.
  const terminal = spawn('script', ['-qec', `${process.execPath} ${file}`, '/dev/null'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => terminal.kill('SIGKILL'))
  t.equal(await until('all is logged', () => readFileSync(done, 'utf8')), 'true')
})

/** Header fields that make a long line of the log. */
const head = { 'x-request-id': 'x'.repeat(128), 'x-forwarded-for': '::1,'.repeat(50) }

/** Starts the service, and fills what it keeps of its log. Nobody reads the log any more. */
async function startStalled(t: Test, env: NodeJS.ProcessEnv = {}) {
  const settings = { DATABASE_URL: await createDatabase(t), ...env }
  const { url, kill, child, output } = await startProcess(t, settings)
  const [, page = ''] = await output(/Metrics at (http:[^"]+)/)
  const exited = once(child, 'exit')
  child.stdout?.pause()
  const responses = parseResponses(
    await exchange(url, [request('', head).repeat(4_000)], { halfClose: true })
  )
  t.strictSame([...new Set(responses.map(({ status }) => status))], [400])
  t.equal(responses.length, 4_000)
  return { url, page, kill, exited }
}

t.test('a service whose log nobody reads serves, counts lost lines, and ends at SIGTERM', async (t) => {
  const { url, page, kill, exited } = await startStalled(t)
  const lost = async () =>
    parseMetrics(await (await fetch(page)).text()).value('plant_store_log_lines_lost_total')
  t.ok(await until('lines are lost', lost, (count) => count > 0))
  t.strictSame(await post(`${url}/plants`, { id: 1, name: 'n' }), success({ name: 'n' }))
  t.equal((await fetch(`${url}/readyz`)).status, 200)
  kill('SIGTERM')
  t.strictSame(await exited, [0, null])
})

t.test('a service whose log is read at 256 kB/s responds as soon as others', async (t) => {
  const { url, child } = await startProcess(t, { DATABASE_URL: await createDatabase(t) })
  child.stdout?.pause()
  const reading = setInterval(() => child.stdout?.read(16_384), 64)
  t.teardown(() => clearInterval(reading))
  let isOver = false
  const flood = exchange(url, [request('', head).repeat(4_000)], { halfClose: true }).then(() => {
    isOver = true
  })
  const times: number[] = []
  while (!isOver) {
    const began = performance.now()
    t.equal((await fetch(`${url}/livez`)).status, 200)
    times.push(performance.now() - began)
  }
  await flood
  const middle = times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] as number
  t.ok(middle < scaled(200), `${Math.round(middle)} ms in the middle of ${times.length}`)
})

t.test('a second signal ends a service whose log nobody reads', async (t) => {
  const { url, kill, exited } = await startStalled(t, { SHUTDOWN_DELAY_MS: String(scaled(60_000)) })
  kill('SIGTERM')
  await until('it shuts down', async () => (await fetch(`${url}/readyz`)).status === 400)
  kill('SIGTERM')
  t.strictSame(await exited, [1, null])
})

t.test('what the log leans on is checked when it opens', async (t) => {
  const program = `
    import { createInfoLine } from ${JSON.stringify(logger)}
    process.stdout._handle = undefined
    for (const open of [() => createLogger('info'), () => createInfoLine(console)])
      try { open() } catch ({ message }) { console.error(message) }`
  t.equal(
    await text(run(t, program, ['ignore', 'pipe', 'pipe']).stderr as Readable),
    `Node ${process.version} cannot make standard output non-blocking\nthe logger is not one of createLogger\n`
  )
})
