/** The log on standard output: nothing of it waits for long, and none is lost or doubled. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'

const logger = join(import.meta.dirname, '../src/logger.ts')

/** Runs a program that has a logger; it is killed at teardown. */
function run(t: Test, program: string) {
  const source = `import { createLogger } from ${JSON.stringify(logger)}; const log = createLogger('info'); ${program}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

const messages = (log: string) =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).msg)

t.test('a line is written while the process lives on', async (t) => {
  const child = run(t, `log.info('alone'); setInterval(() => {}, 60_000)`)
  const [chunk] = await once(child.stdout, 'data')
  t.strictSame(messages(String(chunk)), ['alone'])
})

t.test('a fatal line is written at once, with those before it', async (t) => {
  const child = run(t, `log.info('before'); log.fatal('last'); process.kill(process.pid, 'SIGKILL')`)
  t.strictSame(messages(await text(child.stdout)), ['before', 'last'])
})

t.test('the exit writes what is left', async (t) => {
  const child = run(t, `for (let n = 0; n < 500; n++) log.info(String(n)); process.exit()`)
  t.strictSame(
    messages(await text(child.stdout)),
    Array.from({ length: 500 }, (_, n) => String(n))
  )
})

t.test('a write that fails once costs no line, and doubles none', async (t) => {
  const program = `
    import fs from 'node:fs'
    const { writeSync } = fs
    let fails = true
    fs.writeSync = (...given) => {
      if (!fails) return writeSync(...given)
      fails = false
      throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
    }
    for (let n = 0; n < 300; n++) try { log.info(String(n)) } catch {}
    process.exit()`
  const child = run(t, program)
  t.strictSame(
    messages(await text(child.stdout)),
    Array.from({ length: 300 }, (_, n) => String(n))
  )
})
