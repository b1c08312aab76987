/** The files of access tokens and of the database's URL: every way to change one, and every way to break it. */
import { mkdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseTokens } from '../src/auth/tokens.ts'
import { parseDatabaseUrl } from '../src/database/url.ts'
import { createLogger } from '../src/logger.ts'
import { digestOf, watchSecretFile } from '../src/secret-file.ts'

/** What a file holds of these names, and the names that are read from it. */
interface Kind {
  readonly setting: string
  readonly list: (...names: string[]) => string
  readonly parse: (text: string) => string[]
  /** Texts that are broken, with the fault. */
  readonly broken: readonly [text: string, fault: string][]
}

const kinds: Kind[] = [
  {
    setting: 'AUTH_TOKENS_FILE',
    list: (...names) => `${names.map((name) => `${name}:secret-of-${name}-0123456789`).join('\n')}\n`,
    parse(text) {
      const { findCaller } = parseTokens(text)
      return [...text.matchAll(/secret-of-\S+/g)].map(([secret]) => `${findCaller(secret)}`)
    },
    broken: [
      ['', 'must hold at least one token'],
      [' , ', 'must hold at least one token'],
      [
        'b:secret-of-b-0123456789\nc:too-short\n',
        'entry 2 must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'
      ]
    ]
  },
  {
    setting: 'DATABASE_URL_FILE',
    list: (...names) => `postgres://gardener:too-short@${names.join()}/plants\n`,
    parse(text) {
      const { host, port, hosts = [{ host, port }] } = parseDatabaseUrl(text)
      return hosts.map((one) => String(one.host))
    },
    broken: [
      ['', 'must be a URL such as postgres://user:password@host:5432/database'],
      [
        'mysql://gardener:too-short@b/plants',
        'must be a URL such as postgres://user:password@host:5432/database'
      ],
      [
        'postgres://gardener:too-short@b/plants?ssl=true',
        'has the unknown parameter ssl; the nearest known one is sslmode'
      ]
    ]
  }
]

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

/** Watches a file that holds these names, as a plugin does. */
function watch(
  t: Test,
  kind: Kind,
  path: string,
  logger: ReturnType<typeof createLogger>,
  ...names: string[]
) {
  let current = names
  const file = { path, digest: digestOf(kind.list(...names).trim()) }
  const followed = watchSecretFile(kind.setting, file, logger, (text) => {
    current = kind.parse(text)
    return { count: current.length }
  })
  t.teardown(() => followed.close())
  return { followed, names: () => current }
}

/** Follows a file that holds these names, until teardown. */
async function follow(t: Test, kind: Kind, ...all: string[]) {
  const path = join(t.testdir({}), 'secret')
  await writeFile(path, kind.list(...all))
  const log: string[] = []
  const logger = createLogger('info', { write: (line) => void log.push(line) })
  const { names, followed } = watch(t, kind, path, logger, ...all)
  return {
    path,
    followed,
    names,
    log: () =>
      log.map((line) => {
        const { time, ...rest } = JSON.parse(line)
        return rest
      })
  }
}

/** Asserts that two readings, and not one, make these the names. */
async function becomes(t: Test, file: { names: () => string[] }, ...names: string[]) {
  const before = file.names()
  await readAgain()
  t.strictSame(file.names(), before, 'one reading is not enough')
  await readAgain()
  t.strictSame(file.names(), names)
}

/** Returns the lines of the log after more readings than a line takes. */
async function logged({ log }: { log: () => object[] }) {
  await readAgain(4)
  return log()
}

for (const kind of kinds) {
  const { setting, list, broken } = kind
  const read = (count: number) => ({ level: 30, count, msg: `${setting} was read` })
  const refused = (fault: string) => ({
    level: 50,
    faults: [fault],
    msg: `${setting} is broken; keeping the earlier text`
  })

  t.test(`${kind.setting}: a file that is written in place is used`, async (t) => {
    const file = await follow(t, kind, 'a', 'b')
    await writeFile(file.path, list('b', 'c'))
    await becomes(t, file, 'b', 'c')
    t.strictSame(file.log(), [read(2)])
  })

  t.test(
    `${kind.setting}: a change that leaves the length and the times as they were is noticed`,
    async (t) => {
      const file = await follow(t, kind, 'a')
      await readAgain()
      const { atime, mtime } = await stat(file.path)
      await writeFile(file.path, list('b'))
      await utimes(file.path, atime, mtime)
      await becomes(t, file, 'b')
    }
  )

  t.test(`${kind.setting}: a file that is renamed over it is used`, async (t) => {
    const file = await follow(t, kind, 'a')
    await writeFile(`${file.path}.new`, list('a', 'b'))
    await rename(`${file.path}.new`, file.path)
    await becomes(t, file, 'a', 'b')
  })

  t.test(
    `${kind.setting}: a link that is swapped in its path, as Kubernetes does, is followed`,
    async (t) => {
      const directory = t.testdir({})
      for (const [version, names] of [
        ['..1', ['a']],
        ['..2', ['b']]
      ] as const) {
        await mkdir(join(directory, version))
        await writeFile(join(directory, version, 'secret'), list(...names))
      }
      await symlink('..1', join(directory, '..data'))
      await symlink(join('..data', 'secret'), join(directory, 'secret'))
      const watched = watch(t, kind, join(directory, 'secret'), createLogger('silent'), 'a')
      await symlink('..2', join(directory, '..data_tmp'))
      await rename(join(directory, '..data_tmp'), join(directory, '..data'))
      await becomes(t, watched, 'b')
    }
  )

  t.test(
    `${kind.setting}: a broken file keeps what it had, and each is logged once, without its secret`,
    async (t) => {
      const file = await follow(t, kind, 'a')
      const faults = broken.map(([, fault]) => refused(fault))
      for (const [text] of broken) {
        await writeFile(file.path, text)
        await logged(file)
      }
      t.strictSame(file.log(), faults)
      t.notMatch(JSON.stringify(file.log()), 'too-short')
      await rm(file.path)
      t.strictSame((await logged(file)).slice(broken.length), [refused('cannot be read (ENOENT)')])
      t.strictSame(file.names(), ['a'])
      await writeFile(file.path, list('a'))
      t.strictSame(
        (await logged(file)).slice(broken.length + 1),
        [read(1)],
        'that it is whole again is logged'
      )
      t.strictSame(file.names(), ['a'])
    }
  )

  t.test(
    `${kind.setting}: half of a list, itself a good one, is not used while the rest is written`,
    async (t) => {
      const file = await follow(t, kind, 'a', 'b')
      for (let rounds = 0; rounds < 4; rounds++) {
        await writeFile(file.path, list('a'))
        await readAgain()
        await writeFile(file.path, list('a', 'b'))
        for (let count = 0; count < 3; count++) {
          t.strictSame(file.names(), ['a', 'b'])
          await readAgain()
        }
      }
      t.strictSame(file.log(), [])
    }
  )

  t.test(`${kind.setting}: a reload is used at once, and is logged whatever it finds`, async (t) => {
    const file = await follow(t, kind, 'a')
    await file.followed.reload()
    t.strictSame(file.log(), [read(1)])
    await writeFile(file.path, list('b', 'c'))
    await file.followed.reload()
    t.strictSame(file.names(), ['b', 'c'])
    t.equal(file.followed.isBroken(), false)
    const [text, fault] = broken[1] as (typeof broken)[0]
    await writeFile(file.path, text)
    await file.followed.reload()
    await file.followed.reload()
    await readAgain(3)
    const empty = refused(fault)
    t.strictSame(
      file.log().slice(1),
      [read(2), empty, empty],
      'the file is not judged again without a change'
    )
    t.strictSame(file.names(), ['b', 'c'])
    t.equal(file.followed.isBroken(), true)
    await writeFile(file.path, list('b'))
    await becomes(t, file, 'b')
    t.equal(file.followed.isBroken(), false)
  })

  t.test(`${kind.setting}: a file that is no longer followed changes nothing`, async (t) => {
    const file = await follow(t, kind, 'a')
    file.followed.close()
    await writeFile(file.path, list('b'))
    await readAgain(3)
    await file.followed.reload()
    t.strictSame(file.names(), ['a'])
    t.strictSame(file.log(), [])
  })

  t.test(`${kind.setting}: a reading that ends after the close changes nothing`, async (t) => {
    const file = await follow(t, kind, 'a')
    await writeFile(file.path, list('b'))
    await readAgain()
    const [reading, reload] = [readAgain(), file.followed.reload()]
    file.followed.close()
    await Promise.all([reading, reload])
    t.strictSame(file.names(), ['a'])
    t.strictSame(file.log(), [])
    t.equal(timers.size, 0, 'it is the last one')
  })
}
