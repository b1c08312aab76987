/**
 * The loggers: a process can make any number of them, and the lines of an application go to the one
 * that it was given.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { createLogger } from '../src/log.ts'

if (process.argv[2] === 'write') {
  for (const name of ['one', 'two', 'three']) createLogger('info').info({ name }, 'hello')
  createLogger('error').info('silent')
  process.exit(7)
}

t.test('several loggers in a process write whole lines to one output, up to its end', async (t) => {
  const child = fork(import.meta.filename, ['write'], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  const texts = ['', '']
  for (const [index, stream] of [child.stdout, child.stderr].entries())
    stream?.setEncoding('utf8').on('data', (text) => (texts[index] += text))
  t.strictSame(await once(child, 'close'), [7, null])
  const lines = texts[0]
    ?.trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(lines, [{ name: 'one', level: 30, msg: 'hello' }, { name: 'two' }, { name: 'three' }])
  t.equal(lines?.length, 3)
  t.equal(texts[1], '')
})
