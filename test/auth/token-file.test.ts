/** The file of access tokens: every way to change it, and every way to break it. */
import { mkdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseTokens } from '../../src/auth/tokens.ts'
import { createLogger } from '../../src/logger.ts'
import { digestOf, watchSecretFile } from '../../src/secret-file.ts'

const list = (...names: string[]) =>
  `${names.map((name) => `${name}:secret-of-${name}-0123456789`).join('\n')}\n`
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

const broken = 'AUTH_TOKENS_FILE is broken: its earlier text stays in use'

/** Watches a file that holds these callers' tokens, as the plugin does. */
function watch(t: Test, path: string, logger: ReturnType<typeof createLogger>, ...names: string[]) {
  let tokens = parseTokens(list(...names))
  const file = { path, digest: digestOf(list(...names).trim()) }
  const followed = watchSecretFile('AUTH_TOKENS_FILE', file, logger, (text) => {
    tokens = parseTokens(text)
    return { tokens: tokens.size }
  })
  t.teardown(() => followed.close())
  return { followed, callers: () => [...tokens.values()] }
}

/** Follows a file that holds these callers' tokens, until teardown. */
async function follow(t: Test, ...names: string[]) {
  const path = join(t.testdir({}), 'tokens')
  await writeFile(path, list(...names))
  const log: string[] = []
  const logger = createLogger('info', { write: (line) => void log.push(line) })
  const { callers, followed } = watch(t, path, logger, ...names)
  return {
    path,
    followed,
    callers,
    log: () =>
      log.map((line) => {
        const { time, ...rest } = JSON.parse(line)
        return rest
      })
  }
}

/** Asserts that two readings, and not one, make these the callers. */
async function becomes(t: Test, { callers }: { callers: () => string[] }, ...names: string[]) {
  const before = callers()
  await readAgain()
  t.strictSame(callers(), before, 'one reading is not enough')
  await readAgain()
  t.strictSame(callers(), names)
}

/** Returns the lines of the log after more readings than a line takes. */
async function logged({ log }: { log: () => object[] }) {
  await readAgain(4)
  return log()
}

const read = (tokens: number) => ({ level: 30, tokens, msg: 'AUTH_TOKENS_FILE was read' })
const refused = (fault: string) => ({ level: 50, faults: [fault], msg: broken })

t.test('a file that is written in place is used', async (t) => {
  const file = await follow(t, 'a', 'b')
  await writeFile(file.path, list('b', 'c'))
  await becomes(t, file, 'b', 'c')
  t.strictSame(file.log(), [read(2)])
})

t.test('a change that leaves the length and the times as they were is noticed', async (t) => {
  const file = await follow(t, 'a')
  await readAgain()
  const { atime, mtime } = await stat(file.path)
  await writeFile(file.path, list('b'))
  await utimes(file.path, atime, mtime)
  await becomes(t, file, 'b')
})

t.test('a file that is renamed over it is used', async (t) => {
  const file = await follow(t, 'a')
  await writeFile(`${file.path}.new`, list('a', 'b'))
  await rename(`${file.path}.new`, file.path)
  await becomes(t, file, 'a', 'b')
})

t.test('a link that is swapped in its path, as Kubernetes does, is followed', async (t) => {
  const directory = t.testdir({})
  for (const [version, names] of [
    ['..1', ['a']],
    ['..2', ['b']]
  ] as const) {
    await mkdir(join(directory, version))
    await writeFile(join(directory, version, 'tokens'), list(...names))
  }
  await symlink('..1', join(directory, '..data'))
  await symlink(join('..data', 'tokens'), join(directory, 'tokens'))
  const watched = watch(t, join(directory, 'tokens'), createLogger('silent'), 'a')
  await symlink('..2', join(directory, '..data_tmp'))
  await rename(join(directory, '..data_tmp'), join(directory, '..data'))
  await becomes(t, watched, 'b')
})

t.test('a broken file keeps the tokens and is logged once, another broken one once more', async (t) => {
  const file = await follow(t, 'a')
  await writeFile(file.path, '')
  t.strictSame(await logged(file), [refused('must hold at least one token')])
  await rm(file.path)
  t.strictSame((await logged(file)).slice(1), [refused('cannot be read (ENOENT)')])
  t.strictSame(file.callers(), ['a'])
  await writeFile(file.path, list('a'))
  t.strictSame((await logged(file)).slice(2), [read(1)], 'that it is whole again is logged')
  t.strictSame(file.callers(), ['a'])
})

t.test('a file with one bad entry is broken as a whole, and its line has no secret', async (t) => {
  const file = await follow(t, 'a')
  await writeFile(file.path, `${list('b')}c:too-short\n`)
  const rule = 'must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'
  t.strictSame(await logged(file), [refused(`entry 2 ${rule}`)])
  t.strictSame(file.callers(), ['a'])
})

t.test('half of a list, itself a good one, is not used while the rest is written', async (t) => {
  const file = await follow(t, 'a', 'b')
  for (let rounds = 0; rounds < 4; rounds++) {
    await writeFile(file.path, list('a'))
    await readAgain()
    await writeFile(file.path, list('a', 'b'))
    for (let count = 0; count < 3; count++) {
      t.strictSame(file.callers(), ['a', 'b'])
      await readAgain()
    }
  }
  t.strictSame(file.log(), [])
})

t.test('a reload is used at once, and is logged whatever it finds', async (t) => {
  const file = await follow(t, 'a')
  await file.followed.reload()
  t.strictSame(file.log(), [read(1)])
  await writeFile(file.path, list('b', 'c'))
  await file.followed.reload()
  t.strictSame(file.callers(), ['b', 'c'])
  t.equal(file.followed.isBroken(), false)
  await writeFile(file.path, ' , ')
  await file.followed.reload()
  await file.followed.reload()
  await readAgain(3)
  const empty = refused('must hold at least one token')
  t.strictSame(file.log().slice(1), [read(2), empty, empty], 'the file is not judged again without a change')
  t.strictSame(file.callers(), ['b', 'c'])
  t.equal(file.followed.isBroken(), true)
  await writeFile(file.path, list('b'))
  await becomes(t, file, 'b')
  t.equal(file.followed.isBroken(), false)
})

t.test('a file that is no longer followed changes nothing', async (t) => {
  const file = await follow(t, 'a')
  file.followed.close()
  await writeFile(file.path, list('b'))
  await readAgain(3)
  await file.followed.reload()
  t.strictSame(file.callers(), ['a'])
  t.strictSame(file.log(), [])
})

t.test('a reading that ends after the close changes nothing', async (t) => {
  const file = await follow(t, 'a')
  await writeFile(file.path, list('b'))
  await readAgain()
  const [reading, reload] = [readAgain(), file.followed.reload()]
  file.followed.close()
  await Promise.all([reading, reload])
  t.strictSame(file.callers(), ['a'])
  t.strictSame(file.log(), [])
  t.equal(timers.size, 0, 'it is the last one')
})
