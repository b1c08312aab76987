/** The product, broken on purpose: what the simulation must find, or else a test. */

/** The product with a fault. */
export interface Mutant {
  readonly name: string
  /** The rule that a seed must be seen to break; or the test that fails, its path in `test`. */
  readonly foundBy: RegExp | string
  readonly edits: readonly Edit[]
}

/** Text in a file of `src` that is replaced: it must be there once. */
type Edit = readonly [file: string, text: string, replacement: string]

/** Returns the source of the file with the edit. Throws if the text is not there once. */
export function edit(source: string, [file, text, replacement]: Edit): string {
  const parts = source.split(text)
  if (parts.length !== 2) throw new Error(`src/${file} has this ${parts.length - 1} times: ${text}`)
  return parts.join(replacement)
}

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
  foundBy: RegExp | string,
  edits: [name: string, text: string, replacement: string][]
): Mutant[] =>
  edits.map(([name, text, replacement]) => ({ name, foundBy, edits: [[file, text, replacement]] }))

export const mutants: readonly Mutant[] = [
  ...inFile('database/errors.ts', openOutcome, [
    [
      'a connection that was lost has written nothing',
      'const isOpen = code === undefined || open.test(code)',
      "if (code === undefined) return { error, written: 'no', whose: 'unclear', again: 'later' }\n  const isOpen = open.test(code)"
    ]
  ]),
  ...inFile('database/errors.ts', 'database/errors', [
    [
      'an error from a worker has written nothing',
      "isOpen || (broken.test(code) && onWorkers.test(file ?? ''))",
      'isOpen'
    ],
    [
      'a server that stops has written nothing',
      "written: 'maybe', whose: 'unclear'",
      "written: code === '57P01' ? 'no' : 'maybe', whose: 'unclear'"
    ],
    ['a read-only server keeps its connections', 'const stale = /^(25006|26000|', 'const stale = /^(26000|']
  ]),
  ...inFile('database/hosts.ts', failure, [
    [
      'the first of several hosts is the only one',
      'if (current === this.#index) current',
      'if (current === -1) current'
    ],
    ['a read-only host is as good as another', "target_session_attrs === 'read-write' &&", 'false &&']
  ]),
  ...inFile('database/pool.ts', 'database/pool', [
    [
      'a connection of a replaced pool is lent',
      'const isAwaited = () => from === pool.current && pool',
      'const isAwaited = () => pool'
    ]
  ]),
  ...inFile('database/pool.ts', /./, [
    [
      'a connection that comes too late is not given back',
      'if (!isAwaited()) return client.release()',
      'if (!isAwaited()) return'
    ]
  ]),
  ...inFile('plants/probe.ts', 'database/pool', [
    ['a probe that keeps a connection to a read-only server', 'database.reset(error)', '']
  ]),
  ...inFile('plants/probe.ts', 'plants/probe', [
    [
      'an idle probe never forgets',
      'awaySince = isAway ? (awaySince ?? began) : undefined',
      'if (isAway) awaySince ??= began'
    ]
  ]),
  ...inFile('database/statement.ts', failure, [
    ['a statement has the whole deadline', 'statementsPerDeadline = 3', 'statementsPerDeadline = 1']
  ]),
  ...inFile('database/statement.ts', falsehood, [
    [
      'a success that is merely visible',
      'if (!unreplicated.delete(client) && !(isCancelled && result)) return { result, error, isServerLost }',
      'if (!unreplicated.delete(client) || !unreplicated.has(client)) return { result, error, isServerLost }'
    ]
  ]),
  ...inFile('database/statement.ts', 'faults/database-states', [
    [
      'the notice of a cancelled wait is ignored',
      "if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)",
      'return [client, routine]'
    ]
  ]),
  ...inFile('database/statement.ts', 'database/pool', [
    ['a success after a cancel is believed', ' && !(isCancelled && result)', ''],
    ['a statement is cancelled after its end', '    if (isOver) return\n', ''],
    ['no grace after a cancel', 'setImmediate(giveUp), cancelGraceMs', 'setImmediate(giveUp), 0'],
    ['a limit goes on after its statement', 'clearTimeout(timer)\n  clearTimeout(grace', 'clearTimeout(grace']
  ]),
  ...inFile('database/statement.ts', onWire, [
    [
      'a connection that is used again after a cancel',
      'client.release(isLost || isServerLost || isCancelled)',
      'client.release(isLost || isServerLost)'
    ]
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
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', 'group-commit/failures', [
    [
      'a refusal after an open attempt is told as one',
      "row.mayBeStored ? new NotCommitted('unknown', failure.error) : failure.error",
      'failure.error'
    ],
    ['a missing row is told as "stored nothing"', "row.mayBeStored ? 'unknown' : 'missing'", "'missing'"]
  ]),
  ...inFile('group-commit/group-commit.ts', 'group-commit/bounds', [
    [
      'results are those of the rows that still wait',
      'rows.entries()',
      "rows.sort((a, b) => Number(a.state === 'done') - Number(b.state === 'done')).entries()"
    ],
    ['an attempt that nobody waits for is not given up', 'row.attempt.giveUp()', 'row.attempt.rows']
  ]),
  ...inFile('group-commit/group-commit.ts', falsehood, [
    [
      'an error is given to the next row of the id, too',
      'row.reject(error, row.attempt?.rows)',
      'row.reject(error), row.next && (row.next.reject(error), pendingRows.settle(row.next), queue.withdraw(row.next))'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', failure, [
    [
      'no repeat after an open outcome',
      'switch (judge(',
      "switch (failure.written === 'maybe' ? 'fail' : judge("
    ],
    [
      'half of what is split is dropped',
      '/ 2))\n',
      '/ 2))\n          if (rows.indexOf(row) * 2 >= rows.length) continue\n'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', 'group-commit/outages', [
    ['pauses go on when the database is back', 'if (!databaseDown) backOff.end()', '']
  ]),
  ...inFile('group-commit/group-commit.ts', /never ends/, [
    ['a rest does not end with its row', 'row.endRest()', ''],
    ['a row that has expired is tried', 'queue.withdraw(row)', '']
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
  ...inFile('group-commit/outage.ts', failure, [
    ['the first failing probe is the last', 'cancelProbe = clock.after(probeEveryMs, look)', '']
  ]),
  ...inFile('group-commit/queue.ts', /deadlock/, [
    ['rows that are not sorted', 'rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))', '']
  ]),
  ...inFile('group-commit/queue.ts', 'group-commit/lanes', [
    ['rows that are sorted as doubles', 'a.item.id < b.item.id', 'Number(a.item.id) < Number(b.item.id)']
  ]),
  ...inFile('group-commit/types.ts', 'group-commit/bounds', [
    ['the wall clock', 'performance.now()', 'Date.now()']
  ]),
  ...inFile('group-commit/verdict.ts', 'group-commit/verdict', [
    [
      'rows that failed together stay together',
      "return isAlone ? 'rest' : 'split'",
      "return isAlone ? 'rest' : 'wait'"
    ],
    [
      'what others met counts for all',
      'total - Math.max(since, clearedAt) >= enough',
      'total - Math.max(since * 0, clearedAt) >= enough'
    ]
  ]),
  ...inFile('plants/columns.ts', falsehood, [
    ['an empty text is as good as none', 'plant[field] !== undefined', 'plant[field]'],
    ['a field is not compared', 'plant[field] !== undefined)\n', "field !== 'tag')\n"]
  ]),
  ...inFile('plants/plugin.ts', 'plants/plugin', [
    ['no connection for the probe', 'probeConnections = 1', 'probeConnections = 0']
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
  ...inFile('plants/sql-store.ts', /two keys/, [
    ['a key is the same for all callers', `\`\${caller.length}:\${caller}\${key.length}:\${key}\``, 'key']
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
  ...inFile('plants/sql-store.ts', 'plants/sql-store', [
    ['a look-up that fails costs all', 'return { results, failure: {', 'return { results: [], failure: {'],
    ['a look-up that fails is an open outcome', "...diagnose(error), written: 'no'", '...diagnose(error)']
  ]),
  ...inFile('plants/sql-store.ts', 'plants/plugin', [
    ['a look-up without the signal', 'findPlants(ids), signal', 'findPlants(ids)']
  ]),
  ...inFile('plants/statements.ts', falsehood, [
    ['what is found is merely visible', "pg_logical_emit_message(true, 'plant-store', '')", 'null']
  ]),
  ...inFile('plants/statements.ts', 'faults/bad-rows', [
    ['a commit does not wait where the session says so', "in ('off', 'local')", "in ('never')"]
  ]),
  {
    name: 'a pool that outlives a failover',
    foundBy: failure,
    edits: [
      ['database/pool.ts', 'if (isServerLost) reset(from, error)', ''],
      ['database/pool.ts', 'isHarmless(error) || reset(pool, error)', 'error']
    ]
  },
  {
    name: 'a row that has expired frees its id, though its attempt runs',
    foundBy: onWire,
    edits: [
      ['group-commit/group-commit.ts', 'if (isTried) {', 'if (isTried) {\n      queue.release(row)'],
      [
        'group-commit/group-commit.ts',
        "if (row.state === 'done') queue.release(row)",
        "if (row.state === 'done') continue"
      ]
    ]
  }
]
