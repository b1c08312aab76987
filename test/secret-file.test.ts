/** A file that holds a secret: every way to change it, and every way to break it. The plugins' own tests have what follows. */
import { rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { StartupFault } from '../src/failures/startup-fault.ts'
import { createLogger } from '../src/logger.ts'
import { digestOf, watchSecretFile } from '../src/secret-file.ts'

/** The time between two readings, in ms. */
const pollMs = 1_000
/** The callbacks of the timers: each resolves when its reading is over. */
const timers = new Map<unknown, () => Promise<void>>()
const { setTimeout, clearTimeout } = globalThis
Object.assign(globalThis, {
  setTimeout(callback: () => Promise<void>, ms: number) {
    if (ms !== pollMs) return setTimeout(callback, ms)
    const timer = { unref: () => timer }
    timers.set(timer, callback)
    return timer
  },
  clearTimeout(timer: NodeJS.Timeout) {
    if (!timers.delete(timer)) clearTimeout(timer)
  }
})

/** Lets the time between two readings pass, this many times. */
async function readAgain(times = 1) {
  for (let count = 0; count < times; count++) {
    const due = [...timers.values()]
    timers.clear()
    for (const callback of due) await callback()
  }
}

const read = (text: string) => ({ level: 30, length: text.length, msg: 'SECRET_FILE was read' })
const refused = (fault: string) => ({
  level: 50,
  faults: [fault],
  msg: 'SECRET_FILE is broken; keeping the earlier text'
})

/** Watches a file that holds the text `a`, in this directory or in a new one, until teardown; a text with a `?` is broken. */
async function watch(t: Test, directory?: string) {
  const path = join(directory ?? t.testdir({}), 'secret')
  if (!directory) await writeFile(path, 'a')
  const lines: string[] = []
  const log = createLogger('info', { write: (line) => void lines.push(line) })
  let current = 'a'
  const watched = watchSecretFile('SECRET_FILE', { path, digest: digestOf('a') }, log, (text) => {
    if (text === '' || text.includes('?')) throw new StartupFault([`has no text ${text.length}`])
    current = text
    return { length: text.length }
  })
  t.teardown(() => watched.close())
  return {
    ...watched,
    path,
    write: (text: string) => writeFile(path, text),
    text: () => current,
    /** Asserts what the log has, after more readings than a line takes. */
    async logged(t: Test, ...expected: object[]) {
      await readAgain(4)
      const found = lines.splice(0).map((line) => JSON.parse(line))
      for (const line of found) delete line.time
      t.strictSame(found, expected)
    }
  }
}
type Watched = Awaited<ReturnType<typeof watch>>

/** Ways to change the text from `a` to `b`; some need a directory that they have prepared. */
const changes: [
  what: string,
  change: (file: Watched) => Promise<unknown>,
  prepare?: (t: Test) => Promise<string>
][] = [
  ['is written in place', ({ write }) => write('b\n')],
  [
    'is written in place, with the length and the times that it had',
    async ({ path, write }) => {
      const { atime, mtime } = await stat(path)
      await write('b')
      await utimes(path, atime, mtime)
    }
  ],
  [
    'is renamed over it',
    async ({ path }) => {
      await writeFile(`${path}.new`, 'b')
      await rename(`${path}.new`, path)
    }
  ],
  [
    'has a link in its path that is swapped, as Kubernetes does',
    async ({ path }) => {
      await symlink('..b', join(path, '../..new'))
      await rename(join(path, '../..new'), join(path, '../..data'))
    },
    async (t) => {
      const directory = t.testdir({ '..a': { secret: 'a' }, '..b': { secret: 'b' } })
      await symlink('..a', join(directory, '..data'))
      await symlink(join('..data', 'secret'), join(directory, 'secret'))
      return directory
    }
  ]
]
for (const [what, change, prepare] of changes)
  t.test(`a file that ${what} is used after two readings`, async (t) => {
    const file = await watch(t, await prepare?.(t))
    await readAgain()
    await change(file)
    await readAgain()
    t.equal(file.text(), 'a', 'one reading is not enough')
    await readAgain()
    t.equal(file.text(), 'b')
    await file.logged(t, read('b'))
  })

t.test('a broken file keeps what it had, and each is logged once, without its text', async (t) => {
  const file = await watch(t)
  t.equal(file.isBroken(), false)
  await file.write('')
  await file.logged(t, refused('has no text 0'))
  await file.write('secret?')
  await file.logged(t, refused('has no text 7'))
  await rm(file.path)
  await file.logged(t, refused('cannot be read (ENOENT)'))
  t.equal(file.text(), 'a')
  t.equal(file.isBroken(), true)
  await file.write('a')
  await file.logged(t, read('a'))
  t.equal(file.isBroken(), false)
})

t.test('half of a text, itself a good one, is not used while the rest is written', async (t) => {
  const file = await watch(t)
  await file.write('whole')
  await file.logged(t, read('whole'))
  for (let rounds = 0; rounds < 4; rounds++) {
    await file.write('who')
    await readAgain()
    await file.write('whole')
    await file.logged(t)
  }
  t.equal(file.text(), 'whole')
})

t.test('a reload is used at once, and is logged whatever it finds', async (t) => {
  const file = await watch(t)
  await file.reload()
  await file.logged(t, read('a'))
  await file.write('b')
  await file.reload()
  t.equal(file.text(), 'b')
  await file.write('?')
  await file.reload()
  await file.reload()
  t.equal(file.isBroken(), true)
  // The file is not judged again without a change.
  await file.logged(t, read('b'), refused('has no text 1'), refused('has no text 1'))
  t.equal(file.text(), 'b')
})

t.test('a file that is no longer watched changes nothing', async (t) => {
  const file = await watch(t)
  file.close()
  t.equal(timers.size, 0)
  await file.write('b')
  await readAgain(3)
  await file.reload()
  t.equal(file.text(), 'a')
  await file.logged(t)
})

t.test('a reading that ends after the close changes nothing', async (t) => {
  const file = await watch(t)
  await file.write('b')
  await readAgain()
  const reads = [readAgain(), file.reload()]
  file.close()
  await Promise.all(reads)
  t.equal(file.text(), 'a')
  await file.logged(t)
  t.equal(timers.size, 0, 'it is the last one')
})
