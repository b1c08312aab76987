/** The product, broken on purpose: what the simulation must find, or else a test. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/** A mutant, and the rule that it must be seen to break. */
export interface Mutant {
  readonly name: string
  readonly breaks: RegExp
  readonly edits: readonly Edit[]
  /** The test that finds it, for when no seed does: its path in `test`. */
  readonly test?: string | undefined
}

/** Text in a file of `src` that is replaced: it must be there once. */
type Edit = readonly [file: string, text: string, replacement: string]

/** A response claims something false. */
const falsehood = /^told |^acknowledged|^stored/
const nothingStored = /^told "nothing stored"/
/** An open outcome is reported as another. */
const openOutcome = /^told "nothing stored"|nothing explains/
/** A create fails that should not. */
const failure =
  /while all is well fails|after all is healed|nothing explains|do not become whole|never ends|closes late/
const onWire = /under way|meets another statement/

/** Makes mutants of one file. */
const inFile = (
  file: string,
  breaks: RegExp,
  edits: [name: string, text: string, replacement: string, test?: string][]
): Mutant[] =>
  edits.map(([name, text, replacement, test]) => ({
    name,
    breaks,
    edits: [[file, text, replacement]],
    test
  }))

export const mutants: readonly Mutant[] = [
  ...inFile('plants/statements.ts', falsehood, [
    ['what is found is merely visible', "pg_logical_emit_message(true, 'plant-store', '')", 'null'],
    [
      'a commit does not wait where the session says so',
      "in ('off', 'local')",
      "in ('never')",
      'faults/bad-rows'
    ]
  ]),
  ...inFile('plants/sql-store.ts', /two keys/, [
    ['a key is the same for all callers', `\`\${caller.length}:\${caller}\${key.length}:\${key}\``, 'key']
  ]),
  ...inFile('plants/repository.ts', /drawn for a key/, [
    [
      'a keyed plant gets a random write id',
      'key === undefined ? randomWriteId() : deriveWriteId(caller, key, writeContent(plant))',
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
  ...inFile('plants/sql-store.ts', falsehood, [
    [
      'created and replayed are swapped',
      "key === undefined || mayBeStored ? 'created' : 'replayed'",
      "key === undefined || mayBeStored ? 'replayed' : 'created'"
    ],
    [
      'any content is the same',
      "found === deriveFormerWriteId(caller, key) ? 'replayed' : new Failure('ReusedKey')",
      "'replayed'"
    ],
    ['any row is its own', 'if (found === item.writeId)', 'if (found)'],
    [
      "what is found is a repeat's own",
      "if (key === undefined || !isOfSameKey(found, item.writeId)) return new Failure('DuplicatePlant')",
      "if (key === undefined) return 'created'"
    ],
    ['any key is the same', 'key === undefined || !isOfSameKey(found, item.writeId)', 'key === undefined']
  ]),
  ...inFile('plants/sql-store.ts', failure, [
    [
      'a look-up that fails costs all',
      'return { results, failure: {',
      'return { results: [], failure: {',
      'plants/sql-store'
    ]
  ]),
  ...inFile('plants/sql-store.ts', /./, [
    ['a look-up without the signal', 'findPlants(ids), signal', 'findPlants(ids)', 'plants/plugin']
  ]),
  ...inFile('database/statement.ts', failure, [
    ['a statement has the whole deadline', 'statementsPerDeadline = 3', 'statementsPerDeadline = 1']
  ]),
  ...inFile('plants/plugin.ts', failure, [
    ['no connection for the probe', 'probeConnections = 1', 'probeConnections = 0', 'plants/plugin']
  ]),
  ...inFile('database/errors.ts', openOutcome, [
    [
      'a connection that was lost has written nothing',
      'const isOpen = code === undefined || open.test(code)',
      "if (code === undefined) return { error, written: 'no', whose: 'unclear', again: 'later' }\n  const isOpen = open.test(code)"
    ],
    [
      'an error from a worker has written nothing',
      "isOpen || (broken.test(code) && onWorkers.test(file ?? ''))",
      'isOpen',
      'database/errors'
    ]
  ]),
  ...inFile('database/errors.ts', failure, [
    [
      'a read-only server keeps its connections',
      'const stale = /^(25006|26000|0A000)$/',
      'const stale = /^(26000|0A000)$/',
      'database/errors'
    ]
  ]),
  ...inFile('database/statement.ts', falsehood, [
    [
      'a success that is merely visible',
      'if (!unreplicated.delete(client) && !(isCancelled && result)) return { result, error, isServerLost }',
      'if (!unreplicated.delete(client) || !unreplicated.has(client)) return { result, error, isServerLost }'
    ],
    [
      'the notice of a cancelled wait is ignored',
      "if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)",
      'return [client, routine]',
      'faults/database-states'
    ]
  ]),
  ...inFile('database/statement.ts', onWire, [
    [
      'a connection that is used again after a cancel',
      'client.release(isLost || isServerLost || isCancelled)',
      'client.release(isLost || isServerLost)'
    ],
    ['a statement is cancelled after its end', '    if (isOver) return\n', '', 'database/pool']
  ]),
  ...inFile('database/statement.ts', openOutcome, [
    [
      'a session that was ended has written nothing',
      'if (isLost && isReported(cause)) error = new OutcomeUnknown',
      'if (isLost && !isReported(cause)) error = new OutcomeUnknown'
    ]
  ]),
  ...inFile('database/statement.ts', /./, [
    ['a server that does not react is waited for', 'setImmediate(giveUp)', 'setImmediate(() => {})']
  ]),
  {
    name: 'a pool that outlives a failover',
    breaks: failure,
    edits: [
      ['database/pool.ts', 'if (isServerLost) reset(from, error)', ''],
      ['database/pool.ts', 'isHarmless(error) || reset(pool, error)', 'error']
    ]
  },
  ...inFile('database/pool.ts', /./, [
    [
      'a connection of a replaced pool is lent',
      'const isAwaited = () => from === pool.current && pool',
      'const isAwaited = () => pool',
      'database/pool'
    ],
    [
      'a connection that comes too late is not given back',
      'if (!isAwaited()) return client.release()',
      'if (!isAwaited()) return'
    ]
  ]),
  ...inFile('database/readiness.ts', failure, [
    ['a probe that keeps a connection to a read-only server', 'database.reset(error)', '', 'database/pool']
  ]),
  ...inFile('database/hosts.ts', failure, [
    [
      'the first of several hosts is the only one',
      'if (current === this.#index) current',
      'if (current === -1) current'
    ],
    ['a read-only host is as good as another', "target_session_attrs === 'read-write' &&", 'false &&']
  ]),
  ...inFile('group-commit/types.ts', /after its deadline|never ends|fails/, [
    ['the wall clock', 'performance.now()', 'Date.now()', 'group-commit/bounds']
  ]),
  ...inFile('group-commit/outage.ts', failure, [
    ['the first failing probe is the last', 'cancelProbe = clock.after(probeEveryMs, look)', '']
  ]),
  ...inFile('group-commit/verdict.ts', failure, [
    [
      'rows that failed together stay together',
      "return isAlone ? 'rest' : 'split'",
      "return isAlone ? 'rest' : 'wait'"
    ],
    [
      'what others met counts for all',
      'total - Math.max(since, clearedAt) >= enough',
      'total - Math.max(since * 0, clearedAt) >= enough',
      'group-commit/verdict'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', nothingStored, [
    [
      '"has stored nothing" after an open attempt',
      "row.mayBeStored || isTried ? 'unknown'",
      "isTried ? 'unknown'"
    ],
    [
      '"has stored nothing" while an attempt runs',
      "row.mayBeStored || isTried ? 'unknown'",
      "row.mayBeStored ? 'unknown'"
    ],
    [
      'a later failure forgets that an earlier one was open',
      "row.mayBeStored ||= failure.written === 'maybe'",
      "row.mayBeStored = failure.written === 'maybe'"
    ],
    [
      'a refusal after an open attempt is told as one',
      "row.mayBeStored ? new NotCommitted('unknown', failure.error) : failure.error",
      'failure.error',
      'group-commit/failures'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', onWire, [
    [
      'a lane that is free before its attempt has ended',
      'await store.write(rows, controller.signal)',
      `await Promise.race([
          store.write(rows, controller.signal),
          new Promise<Written<R>>((resolve) =>
            controller.signal.addEventListener('abort', () => resolve({ results: [] }))
          )
        ])`
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', /never ends/, [
    [
      'a create that is given up without a word',
      'row.reject(new NotCommitted(reason, row.cause), row.attempt?.rows)',
      ''
    ]
  ]),
  ...inFile('group-commit/queue.ts', /deadlock/, [
    ['rows that are not sorted', 'rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))', ''],
    [
      'rows that are sorted as doubles',
      'a.item.id < b.item.id',
      'Number(a.item.id) < Number(b.item.id)',
      'group-commit/lanes'
    ]
  ])
]

/** What tests need of the project, besides the sources, the tests and their tools. */
const linked = ['node_modules', 'package.json', 'migrations', 'public']

/** Calls back with a copy of the project that has the edits. Throws where a text is not there exactly once. */
export async function withMutant<Result>(
  { edits }: Pick<Mutant, 'edits'>,
  use: (project: string) => Promise<Result>
): Promise<Result> {
  const root = join(import.meta.dirname, '../..')
  const copy = await mkdtemp(join(tmpdir(), 'mutant-'))
  try {
    const filter = (path: string) => basename(path) !== 'node_modules'
    for (const name of ['src', 'test', 'dev'])
      await cp(join(root, name), join(copy, name), { recursive: true, filter })
    for (const name of linked) await symlink(join(root, name), join(copy, name))
    for (const [file, text, replacement] of edits) {
      const path = join(copy, 'src', file)
      const parts = (await readFile(path, 'utf8')).split(text)
      if (parts.length !== 2) throw new Error(`src/${file} has this ${parts.length - 1} times: ${text}`)
      await writeFile(path, parts.join(replacement))
    }
    return await use(copy)
  } finally {
    await rm(copy, { recursive: true })
  }
}
