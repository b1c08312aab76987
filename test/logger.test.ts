/** The log on standard output: nothing of it waits for long, and none is lost or doubled. */
import { type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'

const logger = join(import.meta.dirname, '../src/logger.ts')

/** Runs a program that has a logger; it is killed at teardown. */
function run(t: Test, program: string, stdio: StdioOptions = ['ignore', 'pipe', 'inherit']) {
  const source = `import { createLogger } from ${JSON.stringify(logger)}; const log = createLogger('info'); ${program}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

const messages = (log: string) =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).msg)

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

t.test('with a full disk the process keeps running, counts the lines that it loses, and ends', async (t) => {
  const program = `
    import { lostLines } from ${JSON.stringify(logger)}
    for (let n = 0; n < 20_000; n++) log.info({ n, text: 'x'.repeat(100) }, 'a line')
    process.on('exit', (code) => console.error(JSON.stringify({ code, lost: lostLines() })))
    log.fatal('the last one')`
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const child = run(t, program, ['ignore', full, 'pipe'])
  const { code, lost } = JSON.parse(await text(child.stderr as Readable))
  t.equal(code, 0)
  // 3 MB were logged, and 1 MiB is kept.
  t.ok(lost > 10_000 && lost < 16_000, `${lost} lines were lost`)
})

t.test(
  'when the disk has room again, what was kept is written, and in order, and little more is lost',
  async (t) => {
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
    const lost = lostLines()
    isFull = false
    for (const end = n + 300; n < end; n++) log.info(String(n))
    console.error(JSON.stringify({ logged: n, lost, lostLater: lostLines() - lost }))
    process.exit()`
    const child = run(t, program, ['ignore', 'pipe', 'pipe'])
    const [written, report] = await Promise.all([
      text(child.stdout as Readable),
      text(child.stderr as Readable)
    ])
    const { logged, lost, lostLater } = JSON.parse(report)
    const numbers = messages(written).map(Number)
    t.strictSame(
      numbers,
      numbers.toSorted((one, other) => one - other)
    )
    t.equal(numbers.length + lost + lostLater, logged)
    t.ok(lostLater <= lost, `a piece of ${lost} lines was lost before, ${lostLater} after`)
  }
)

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
