/** The product, broken on purpose: what the simulation must find. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A mutant, and the rule that it must be seen to break. */
export interface Mutant {
  readonly name: string
  readonly breaks: RegExp
  readonly edits: readonly Edit[]
}

/** Text in a file of `src` that is replaced: it must be there once. */
type Edit = readonly [file: string, text: string, replacement: string]

const writeAgain = `do update set write_id = excluded.write_id,
    created_at = case plants.created_at when excluded.created_at then \${justBefore} else plants.created_at end
  where plants.write_id = excluded.write_id`
const waiting = `findMany(\`, \${waitForStandby}\`)`

/** A response claims what is not so. */
const falsehood = /^told |^acknowledged|^stored/
const nothingStored = /^told "nothing stored"/
/** An outcome that is open is told as another. */
const openOutcome = /^told "nothing stored"|nothing explains/
/** A create fails that should not. */
const failure =
  /while all is well fails|after all is healed|nothing explains|do not become whole|never ends|closes late/
const onWire = /under way|meets another statement/

/** Makes mutants of one file. */
const inFile = (
  file: string,
  breaks: RegExp,
  edits: [name: string, text: string, replacement: string][]
): Mutant[] =>
  edits.map(([name, text, replacement]) => ({ name, breaks, edits: [[file, text, replacement]] }))

export const mutants: readonly Mutant[] = [
  {
    name: 'a replay that only reads',
    breaks: falsehood,
    edits: [
      ['plants/statements.ts', writeAgain, 'do nothing'],
      ['plants/statements.ts', waiting, 'findMany()'],
      ['plants/store.ts', 'if (isRepeat && !certain.has(id)) return missing', '']
    ]
  },
  ...inFile('plants/statements.ts', falsehood, [
    ['a 409 from a row that is merely visible', waiting, 'findMany()']
  ]),
  ...inFile('plants/columns.ts', falsehood, [
    [
      'an empty text equals an absent one',
      'fromDriver(row[name]) === plant[field]',
      '(fromDriver(row[name]) || undefined) === (plant[field] || undefined)'
    ],
    [
      'only the fields that were sent are compared',
      'fromDriver(row[name]) === plant[field]',
      'plant[field] === undefined || fromDriver(row[name]) === plant[field]'
    ]
  ]),
  ...inFile('plants/write-id.ts', /two keys/, [
    ['a key is the same for all callers', `\`\${caller.length}:\${caller}\${key.length}:\${key}\``, 'key']
  ]),
  ...inFile('plants/repository.ts', /drawn for a key/, [
    [
      'a keyed plant gets a random write id',
      'isKeyed ? deriveWriteId(caller, key) : randomWriteId()',
      'randomWriteId()'
    ]
  ]),
  ...inFile('plants/repository.ts', nothingStored, [
    [
      'an open outcome is told as "stored nothing"',
      "unknown: 'OutcomeUnknown'",
      "unknown: 'DeadlineExceeded'"
    ]
  ]),
  ...inFile('plants/store.ts', falsehood, [
    [
      'created and replayed are swapped',
      "repeated ? 'created' : 'replayed'",
      "repeated ? 'replayed' : 'created'"
    ],
    [
      'any look-up that fails falls back to what is visible',
      'if (isVisibleEnough || !isFunctionMissing(cause))',
      'if (isVisibleEnough)'
    ]
  ]),
  ...inFile('plants/store.ts', /./, [
    [
      'a look-up without the signal',
      'findPlants(items, isVisibleEnough), signal',
      'findPlants(items, isVisibleEnough)'
    ],
    [
      "a look-up's error is thrown as it is",
      "throw new OutcomeUnknown('the rows are written, and cannot be looked at', cause)",
      'throw cause'
    ]
  ]),
  ...inFile('plants/storage.ts', failure, [
    ['a statement has the whole deadline', 'attemptsPerDeadline = 3', 'attemptsPerDeadline = 1'],
    ['no connection for the probe', 'probeConnections = 1', 'probeConnections = 0']
  ]),
  ...inFile('database/errors.ts', openOutcome, [
    [
      'a session that was ended has written nothing',
      '/^(08...|25P04|40003|57P0[1-5])$/',
      '/^(08...|25P04|40003|57P0[2-5])$/'
    ],
    [
      'a connection that was lost has written nothing',
      "if (code === undefined || uncertain.test(code)) return 'uncertain'",
      "if (code === undefined) return 'transient'\n  if (uncertain.test(code)) return 'uncertain'"
    ],
    [
      'an error from a worker has written nothing',
      "if (broken.test(code) && isFromWorkers(error)) return 'uncertain'",
      ''
    ]
  ]),
  ...inFile('database/errors.ts', failure, [
    [
      'a read-only server keeps its connections',
      'const stale = /^(25006|26000|0A000)$/',
      'const stale = /^(26000|0A000)$/'
    ]
  ]),
  ...inFile('database/statement.ts', falsehood, [
    [
      'a success that is merely visible',
      'const isOpen = unreplicated.delete(client) || (isCancelled && outcome.result !== undefined)',
      'const isOpen = false'
    ],
    [
      'the notice of a cancelled wait is ignored',
      "if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)",
      'return [client, routine]'
    ]
  ]),
  ...inFile('database/statement.ts', onWire, [
    [
      'a connection that is used again after a cancel',
      'client.release(outcome.isLost || isCancelled)',
      'client.release(outcome.isLost)'
    ],
    ['the limit of a statement goes on after its end', '  clearTimeout(timer)\n', '']
  ]),
  ...inFile('database/statement.ts', /./, [
    ["the signal's listener stays", "  signal?.removeEventListener('abort', cancel)\n", ''],
    ['a server that does not react is waited for', 'silence.reject,', '() => {},']
  ]),
  {
    name: 'a pool that outlives a failover',
    breaks: failure,
    edits: [
      ['database/pool.ts', 'if (isLost) resetPool(from, error)', ''],
      ['database/pool.ts', '(client as Ending)._ending || resetPool(fresh, error)', 'error']
    ]
  },
  ...inFile('database/pool.ts', /./, [
    [
      'a connection of a replaced pool is lent',
      'if (isOver || from !== pool) return client.release()',
      'if (isOver) return client.release()'
    ],
    [
      'a connection that comes too late is not given back',
      'if (isOver || from !== pool) return client.release()',
      'if (isOver || from !== pool) return'
    ]
  ]),
  ...inFile('database/readiness.ts', failure, [
    ['a probe that keeps a connection to a read-only server', 'database.reset(error)', '']
  ]),
  ...inFile('database/hosts.ts', failure, [
    [
      'the first of several hosts is the only one',
      'if (current === this.#index) current',
      'if (current === -1) current'
    ],
    ['a read-only host is as good as another', "target_session_attrs === 'read-write' &&", 'false &&']
  ]),
  ...inFile('group-commit/clock.ts', /after its deadline|never ends|fails/, [
    ['the wall clock', 'performance.now()', 'Date.now()']
  ]),
  ...inFile('group-commit/outage.ts', failure, [
    [
      'the first failing probe is the last',
      'else if (databaseDown) cancelProbe = clock.after(probeEveryMs, look)',
      ''
    ]
  ]),
  ...inFile('group-commit/trial.ts', nothingStored, [
    [
      '`repeated` is forgotten when a batch is split',
      'this.#rows = rows\n',
      'this.#rows = rows\n    for (const row of rows) row.repeated = false\n'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', nothingStored, [
    [
      '"has stored nothing" after an open attempt',
      'const isOpen = entry.repeated || entry.assignment?.isAttempt',
      'const isOpen = entry.assignment?.isAttempt'
    ],
    [
      '"has stored nothing" while an attempt runs',
      'const isOpen = entry.repeated || entry.assignment?.isAttempt',
      'const isOpen = entry.repeated'
    ],
    [
      'a later failure forgets that an earlier one was open',
      "entry.repeated ||= outcome === 'uncertain'",
      "entry.repeated = outcome === 'uncertain'"
    ],
    [
      'a refusal after an open attempt is told as one',
      "fail(entry, entry.repeated ? new NotCommitted('unknown', error) : error)",
      'fail(entry, error)'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', onWire, [
    ['an expired row frees its id while its attempt runs', 'if (entry.assignment?.isAttempt) return', ''],
    [
      'a lane that is free before its attempt has ended',
      'await store.write(batch, controller.signal).then(',
      `await Promise.race([
          store.write(batch, controller.signal),
          new Promise<never>((_, reject) => controller.signal.addEventListener('abort', reject))
        ]).then(`
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', /never ends/, [
    [
      'a create that is given up without a word',
      "entry.reject(new NotCommitted(isOpen ? 'unknown' : 'expired', entry.cause))",
      ''
    ]
  ]),
  ...inFile('group-commit/queue.ts', /deadlock/, [
    ['rows that are not sorted', 'part?.rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))', ''],
    ['rows that are sorted as doubles', 'a.item.id < b.item.id', 'Number(a.item.id) < Number(b.item.id)']
  ])
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
