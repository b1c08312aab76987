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
      "if (code === undefined || open.test(code)) return 'lost'",
      "if (code === undefined) return 'busy'\n  if (open.test(code)) return 'lost'"
    ]
  ]),
  ...inFile('database/errors.ts', 'database/errors', [
    ['an error from a worker has written nothing', 'if (broken.test(code) && on', 'if (!code && on'],
    [
      'a server that stops has written nothing',
      "open.test(code)) return 'lost'",
      "open.test(code)) return code === '57P01' ? 'busy' : 'lost'"
    ],
    ['a read-only server keeps its connections', 'const stale = /^(25006|26000|', 'const stale = /^(26000|'],
    [
      'the lock of a row is that of the table',
      'where === undefined ? kind : (ofFunctions[kind] ?? kind)',
      'kind'
    ],
    ['a stale plan is a rule', "RevalidateCachedQuery: 'away',", ''],
    ["a policy's refusal is a missing right", "ExecWithCheckOptions: 'refused'", '']
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
  ...inFile('group-commit/cut-off.ts', 'group-commit/slices', [
    [
      'several probes run at a time',
      'next ??= running.then(() => {',
      'next ??= Promise.resolve().then(() => {'
    ],
    ['no grace for what ends with what was committed', 'limitMs * grace', '0'],
    ['what is late is cut off at once', 'await probe()', ''],
    ['each that is late asks on its own', 'next ??= running', 'next = running'],
    ['what has ended is cut off', 'if (!hasEnded) cancel', 'cancel']
  ]),
  ...inFile('group-commit/estimate.ts', 'group-commit/bounds', [
    ['a slice is not doubled', 'limit(2 * usualMs, doublings)', 'limit(2 * usualMs, 0)'],
    ['busy lanes are forgotten', 'busyMs === undefined', 'busyMs !== -1'],
    ['a look-up gets no more time', "kind === 'find' ? doublings : doubts", 'doubts'],
    ['new rows are cut off before their lock', '4 * Math.max(shortestMs, slowMs)', '4 * slowMs']
  ]),
  ...inFile('group-commit/estimate.ts', 'group-commit/slices', [
    ['new rows get no more time after one was cut off', 'doubts++', '']
  ]),
  ...inFile('group-commit/group-commit.ts', nothingStored, [
    [
      '"stored nothing" after an open attempt',
      "history.mayBeStored || state === 'tried' ? 'unknown'",
      "state === 'tried' ? 'unknown'"
    ],
    [
      '"stored nothing" while an attempt runs',
      "history.mayBeStored || state === 'tried' ? 'unknown'",
      "history.mayBeStored ? 'unknown'"
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', 'group-commit/bounds', [
    [
      'results are those of the rows that still wait',
      'rows.entries()',
      "rows.sort((a, b) => Number(a.state === 'done') - Number(b.state === 'done')).entries()"
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', failure, [
    [
      'half of what is split is dropped',
      'for (const row of undecided) this.#proceed(',
      'for (const row of undecided.slice(undecided.length >> 1)) this.#proceed('
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', 'group-commit/outages', [
    [
      'pauses go on when the database is back',
      'if (databaseDown) return\n    this.#pace.reset()\n',
      'if (databaseDown) return\n'
    ]
  ]),
  ...inFile('group-commit/group-commit.ts', /never ends|crashes/, [
    ['a rest does not end with its row', 'history.endRest()', ''],
    ['a row that has expired is tried', 'this.#queue.withdraw(row)', '']
  ]),
  ...inFile('group-commit/group-commit.ts', onWire, [
    [
      'a lane that is free before its attempt has ended',
      "await (kind === 'find' ? store.find(rows, signal) : store.insert(rows, lockMs, signal))",
      `await Promise.race([
          kind === 'find' ? store.find(rows, signal) : store.insert(rows, lockMs, signal),
          new Promise<Written<R>>((resolve) =>
            signal.addEventListener('abort', () => resolve({ results: [], failure: { error: new Error(), kind: 'busy' } }))
          )
        ])`
    ]
  ]),
  ...inFile('group-commit/row.ts', /never ends/, [
    [
      'a create that is given up without a word',
      'if (outcome instanceof Error) this.reject(outcome, rows)\n    else this',
      'if (!(outcome instanceof NotCommitted)) this'
    ]
  ]),
  ...inFile('group-commit/outage.ts', failure, [
    ['the first failing probe is the last', 'cancelProbe = clock.after(probeEveryMs, look)', '']
  ]),
  ...inFile('group-commit/queue.ts', /deadlock/, [
    ['rows that are not sorted', 'rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))', '']
  ]),
  ...inFile('group-commit/outage.ts', 'group-commit/slices', [
    [
      'attempts that all fail come at any rate',
      'if (failures >= mostFailures) nextAt',
      'if (failures < 0) nextAt'
    ]
  ]),
  ...inFile('group-commit/queue.ts', 'group-commit/lanes', [
    ['rows that are sorted as doubles', 'a.item.id < b.item.id', 'Number(a.item.id) < Number(b.item.id)']
  ]),
  ...inFile('group-commit/queue.ts', 'group-commit/failures', [
    ['look-ups take every lane', 'return this.#busy.find === 0', 'return true']
  ]),
  ...inFile('group-commit/queue.ts', 'group-commit/slices', [
    ['rows that take long take more than a lane', 'this.#busy.longer === 0 && (', '('],
    ['rows that take long go before first trials', "this.#listOf('first')?.first ||", ''],
    ['first trials leave others no turn', "this.#last === 'first' ?", 'this.#last === undefined ?'],
    [
      'successes outlive what they were of',
      'else if (!isSuccess) this.#successes.first = this.#successes.longer = 0',
      "else if (!isSuccess && kind !== 'fresh') this.#successes[kind] = 0"
    ],
    ['suspects leave no lane to the others', 'Math.max(1, lanes - 1)', 'lanes'],
    ['callers do not take turns', 'if (list instanceof Turns) list.turn(rows.at(-1) as Row<T, R>)', ''],
    ['parts are as large as batches', 'findRows : company *', 'findRows : this.#limits.batchRows *'],
    ['successes let no more go together', "else if (kind !== 'fresh') this.#successes[kind]++", '']
  ]),
  ...inFile('group-commit/row.ts', nothingStored, [
    [
      'a later failure forgets that an earlier one was open',
      "if (result === 'lost' && !looksUp) history.mayBeStored = true",
      "if (!looksUp) history.mayBeStored = result === 'lost'"
    ]
  ]),
  ...inFile('group-commit/row.ts', 'group-commit/failures', [
    [
      'a refusal after an open attempt is told as one',
      'if (mayBeStored) return',
      'if (mayBeStored && !refusal) return'
    ],
    [
      'a missing row is told as "stored nothing"',
      'if (mayBeStored) return',
      'if (mayBeStored && refusal) return'
    ],
    [
      'a look-up that is lost has stored its row',
      "if (result === 'lost' && !looksUp)",
      "if (result === 'lost')"
    ],
    [
      'the error of a look-up is told as a refusal',
      "looksUp ? new NotCommitted('missing', cause) : (cause as Error)",
      '(cause as Error)'
    ]
  ]),
  ...inFile('group-commit/row.ts', 'group-commit/bounds', [
    [
      'an attempt that nobody waits for is not given up',
      'if (--this.#waiting === 0)',
      'if (this.#waiting === 0)'
    ]
  ]),
  ...inFile('group-commit/row.ts', 'group-commit/slices', [
    ['the next of an id is not alone', 'if (this.#history.company === 1) next', 'if (!next) next'],
    ['a row that fails alone gets no more time', 'history.slice++', '']
  ]),
  ...inFile('group-commit/table.ts', failure, [
    [
      'no attempt after an open outcome',
      "if (result === 'nothing' && looksUp",
      "if (result === 'lost' && !looksUp) return 'fail'\n  if (result === 'nothing' && looksUp"
    ]
  ]),
  ...inFile('group-commit/table.ts', 'group-commit/failures', [
    [
      'an error before a look',
      "refused: ['part', 'find']\n}\n\n// biome",
      "refused: ['part', 'fail']\n}\n\n// biome"
    ]
  ]),
  ...inFile('group-commit/table.ts', 'group-commit/table', [
    ['what an insert leaves out is not looked up', "nothing: ['find', 'find']", "nothing: ['rest', 'rest']"],
    [
      'what cannot be decided is told though the row may be stored',
      "usual === 'fail' && mayBeStored ? 'rest, find' : usual",
      'mayBeStored ? usual : usual'
    ],
    [
      'chance is not repeated',
      "if (result === 'chance' && !looksUp && repeats < mostRepeats) return 'repeat'\n",
      ''
    ],
    [
      'chance is repeated for ever',
      "result === 'chance' && !looksUp && repeats < mostRepeats",
      "result === 'chance' && !looksUp && repeats < 1e9"
    ],
    [
      'rows that failed together stay together',
      "busy:    ['part', 'rest'],\n  lost:    ['find'",
      "busy:    ['repeat', 'rest'],\n  lost:    ['find'"
    ],
    [
      'a row that is not found forgets its refusal',
      '(refusal || misses > mostRepeats)',
      '(misses > mostRepeats)'
    ],
    ['a row that is left out is tried for ever', '(refusal || misses > mostRepeats)', 'refusal'],
    [
      'a look-up that is refused is repeated for ever',
      "refused: ['part', 'fail']",
      "refused: ['part', 'rest']"
    ]
  ]),
  ...inFile('shared/clock.ts', 'shared/clock', [['the wall clock', 'performance.now()', 'Date.now()']]),
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
  ...inFile('plants/write-id.ts', falsehood, [
    [
      'created and replayed are swapped',
      "key === undefined || mayBeStored ? 'created' : 'replayed'",
      "key === undefined || mayBeStored ? 'replayed' : 'created'"
    ],
    ['any content is the same', 'if (isSame)', 'if (key !== undefined && isOfSameKey(found, writeId))'],
    ['any row is its own', 'if (found === writeId)', 'if (found)'],
    [
      "what is found is a repeat's own",
      'return new Failure(key !== undefined && ',
      "if (key === undefined) return 'created'\n  return new Failure(key !== undefined && "
    ],
    ['any key is the same', 'key !== undefined && isOfSameKey(found, writeId)', 'key !== undefined']
  ]),
  ...inFile('plants/write-id.ts', 'plants/sql-store', [
    ['the content of version 1.0.0 is not compared', 'if (isSame)', 'if (isFormer(create, found))']
  ]),
  ...inFile('plants/sql-store.ts', falsehood, [
    [
      'one write that was made stands for all',
      'if (written.rows.length === rows.length)',
      'if (written.rows.length > 0)'
    ]
  ]),
  ...inFile('plants/sql-store.ts', 'plants/plugin', [
    [
      'a look-up without the signal',
      'database.query<Found>(statement, signal)',
      'database.query<Found>(statement)'
    ]
  ]),
  ...inFile('plants/write-id.ts', /two keys/, [
    ['a key is the same for all callers', `\`\${caller.length}:\${caller}\${key.length}:\${key}\``, 'key']
  ]),
  ...inFile('plants/statements.ts', falsehood, [
    [
      'a write is known by its id alone',
      'do nothing returning write_id',
      'do nothing returning id as write_id'
    ],
    ['what is found is merely visible', `plants.write_id, \${waitForStandby}`, 'plants.write_id, null']
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
      [
        'group-commit/group-commit.ts',
        "if (state === 'tried') return attempt",
        "if (state === 'tried') this.#queue.release(row)\n    if (state === 'tried') return attempt"
      ],
      [
        'group-commit/group-commit.ts',
        "if (row.state === 'done') this.#queue.release(row)",
        "if (row.state === 'done') continue"
      ]
    ]
  }
]
