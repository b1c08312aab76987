/** The product, broken on purpose: what the simulation must find. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A mutant, and the rule that it must be seen to break. */
export interface Mutant {
  readonly name: string
  /** How many seeds are simulated until it is found, as `npm run simulate -- --mutants` says. */
  readonly seeds: number
  readonly breaks: RegExp
  readonly edits: readonly Edit[]
}

/** Text in a file of `src` that is replaced: it must be there once. */
type Edit = readonly [file: string, text: string, replacement: string]

const writeAgain = `do update set write_id = excluded.write_id,
    created_at = case plants.created_at when excluded.created_at then \${justBefore} else plants.created_at end
  where plants.write_id = excluded.write_id`
const waiting = `findMany(\`, \${waitForStandby}\`)`

export const mutants: readonly Mutant[] = [
  {
    name: 'a replay that only reads',
    seeds: 37,
    breaks: /^told "stored"|^acknowledged/,
    edits: [
      ['plants/statements.ts', writeAgain, 'do nothing'],
      ['plants/statements.ts', waiting, 'findMany()'],
      ['plants/store.ts', 'if (isRepeat && !certain.has(id)) return missing', '']
    ]
  },
  {
    name: 'a success that is merely visible',
    seeds: 28,
    breaks: /^told "stored"|^acknowledged/,
    edits: [
      [
        'database/statement.ts',
        'const isOpen = unreplicated.delete(client) || (isCancelled && outcome.result !== undefined)',
        'const isOpen = false'
      ]
    ]
  },
  {
    name: 'a 409 from a row that is merely visible',
    seeds: 391,
    breaks: /^told "taken"|^acknowledged/,
    edits: [['plants/statements.ts', waiting, 'findMany()']]
  },
  {
    name: '`repeated` is forgotten when a batch is split',
    seeds: 1173,
    breaks: /^told "nothing stored"/,
    edits: [
      [
        'group-commit/trial.ts',
        'this.#rows = rows\n',
        'this.#rows = rows\n    for (const row of rows) row.repeated = false\n'
      ]
    ]
  },
  {
    name: '"has stored nothing" after an open attempt',
    seeds: 34,
    breaks: /^told "nothing stored"/,
    edits: [
      [
        'group-commit/group-commit.ts',
        'const isOpen = entry.repeated || entry.assignment?.isAttempt',
        'const isOpen = entry.assignment?.isAttempt'
      ]
    ]
  },
  {
    name: 'a pool that outlives a failover',
    seeds: 449,
    breaks: /after all is healed/,
    edits: [
      ['database/pool.ts', 'if (isLost) resetPool(from, error)', ''],
      ['database/pool.ts', '(client as Ending)._ending || resetPool(fresh, error)', 'error']
    ]
  },
  {
    name: 'a probe that keeps a connection to a read-only server',
    seeds: 578,
    breaks: /after all is healed/,
    edits: [['database/readiness.ts', 'database.reset(error)', '']]
  },
  {
    name: 'a connection that is used again after a cancel',
    seeds: 740,
    breaks: /meets another statement/,
    edits: [
      [
        'database/statement.ts',
        'client.release(outcome.isLost || isCancelled)',
        'client.release(outcome.isLost)'
      ]
    ]
  },
  {
    name: 'rows that are not sorted',
    seeds: 2385,
    breaks: /deadlock/,
    edits: [['group-commit/queue.ts', 'part?.rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))', '']]
  },
  {
    name: 'a create that is given up without a word',
    seeds: 1,
    breaks: /never ends/,
    edits: [
      [
        'group-commit/group-commit.ts',
        "entry.reject(new NotCommitted(isOpen ? 'unknown' : 'expired', entry.cause))",
        ''
      ]
    ]
  },
  {
    name: 'a lane that is free before its attempt has ended',
    seeds: 1,
    breaks: /under way/,
    edits: [
      [
        'group-commit/group-commit.ts',
        'await store.write(batch, controller.signal).then(',
        `await Promise.race([
          store.write(batch, controller.signal),
          new Promise<never>((_, reject) => controller.signal.addEventListener('abort', reject))
        ]).then(`
      ]
    ]
  }
]

/** Calls back with a copy of `src` that has the edits. Throws where a text is not there exactly once. */
export async function withMutant<Result>(
  { edits }: Mutant,
  use: (src: string) => Promise<Result>
): Promise<Result> {
  const root = join(import.meta.dirname, '../..')
  const copy = await mkdtemp(join(tmpdir(), 'mutant-'))
  try {
    await cp(join(root, 'src'), join(copy, 'src'), { recursive: true })
    for (const name of ['node_modules', 'package.json']) await symlink(join(root, name), join(copy, name))
    for (const [file, text, replacement] of edits) {
      const path = join(copy, 'src', file)
      const parts = (await readFile(path, 'utf8')).split(text)
      if (parts.length !== 2) throw new Error(`src/${file} has this ${parts.length - 1} times: ${text}`)
      await writeFile(path, parts.join(replacement))
    }
    return await use(join(copy, 'src'))
  } finally {
    await rm(copy, { recursive: true })
  }
}
