/** The product, broken on purpose: what the simulation must find, or else a test. */
import { edit } from './edit.ts'

/** The product with a fault. */
export interface Mutant {
  readonly name: string
  /** The rule that a seed must be seen to break; or the test that fails, its path in `test`. */
  readonly foundBy: RegExp | string
  /** The file of `src`, and its edits, in the form that edit.ts reads. */
  readonly file: string
  readonly changes: readonly string[]
}

/** Returns the source of a mutant's file with the fault. Throws if an edit has lost its place. */
export function breakSource(source: string, { name, file, changes }: Omit<Mutant, 'foundBy'>): string {
  try {
    return changes.reduce(edit, source)
  } catch (cause) {
    throw new Error(`the mutant "${name}" of src/${file}: ${(cause as Error).message}`, { cause })
  }
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

/** Makes mutants of one file, by their names. */
const inFile = (
  file: string,
  foundBy: RegExp | string,
  changes: Record<string, string | string[]>
): Mutant[] =>
  Object.entries(changes).map(([name, change]) => ({ name, foundBy, file, changes: [change].flat() }))

export const mutants: readonly Mutant[] = [
  ...inFile('database/errors.ts', openOutcome, {
    'a connection that was lost has written nothing':
      "kindOf: return lost 1/2 -> isReported(arguments[0]) ? $0 : 'busy'"
  }),
  ...inFile('database/errors.ts', 'database/errors', {
    'an error from a worker has written nothing': 'kindOf: operand workerCodes -> false',
    'a server that stops has written nothing':
      "kindOf: return lost 2/2 -> arguments[0].code === '57P01' ? 'busy' : $0",
    'a read-only server keeps its connections': 'staleCodes: value -> /^(26000|42P05)$/',
    'the lock of a row is that of the table': 'kindOf: if where -> true',
    'a stale plan is a rule': 'byRoutine: value RevalidateCachedQuery -> undefined',
    "a policy's refusal is a missing right": 'byRoutine: value ExecWithCheckOptions -> undefined'
  }),
  ...inFile('database/hosts.ts', failure, {
    'the first of several hosts is the only one': '#connect: if #index -> false',
    'a read-only host is as good as another': '#connect: operand target_session_attrs -> undefined'
  }),
  ...inFile('database/pool.ts', 'database/pool', {
    'a connection of a replaced pool is lent': '#tryHosts: return #isOver -> $2',
    'a pool that outlives a failover': [
      'query: if isServerLost -> false',
      '#createDriverPool: call replaceAfterFailure -> undefined'
    ]
  }),
  ...inFile('database/pool.ts', /./, {
    'a connection that comes too late is not given back': '#tryHosts: call release -> undefined'
  }),
  ...inFile('plants/probe.ts', 'database/pool', {
    'a probe that keeps a connection to a read-only server': 'probeDatabase: statement replaceAll -> ;'
  }),
  ...inFile('plants/probe.ts', 'plants/probe', {
    'an idle probe never forgets': 'probeWhileIdle.probeIfIdle: assignment undefined -> $1 ??= $2'
  }),
  ...inFile('database/statement.ts', failure, {
    'a statement has the whole deadline': 'statementsPerDeadline: value -> 1'
  }),
  ...inFile('database/statement.ts', falsehood, {
    'a success that is merely visible': 'runStatement: if isCancelled -> true'
  }),
  ...inFile('database/statement.ts', 'faults/database-states', {
    'the notice of a cancelled wait is ignored': 'onNotice: statement unreplicated -> ;'
  }),
  ...inFile('database/statement.ts', 'database/pool', {
    'a success after a cancel is believed': 'runStatement: if isCancelled -> $1',
    'a statement is cancelled after its end': 'runStatement.cancel: if -> false',
    'no grace after a cancel': 'runStatement.cancel: argument cancelGraceMs -> 0',
    'a limit goes on after its statement': 'runStatement: statement clearTimeout 1/2 -> ;'
  }),
  ...inFile('database/statement.ts', onWire, {
    'a connection that is used again after a cancel': 'runStatement: argument nothing -> $1'
  }),
  ...inFile('database/statement.ts', openOutcome, {
    'a session that was ended has written nothing':
      'judge: return isTimedOut -> ({ ...$0, error: arguments[1] })'
  }),
  ...inFile('database/statement.ts', /./, {
    'a server that does not react is waited for':
      'runStatement.cancel: call setImmediate -> setImmediate(() => {})'
  }),
  ...inFile('group-commit/cut-off.ts', 'group-commit/slices', {
    'several probes run at a time': 'createCutOff.commit: statement catch -> ;',
    'no grace for what ends with what was committed': 'partAfterCommit: value -> 0',
    'what is late is cut off at once': 'createCutOff: statement commit -> ;',
    'each that is late asks on its own': 'createCutOff.commit: assignment then -> $1 = $2',
    'what has ended is cut off': 'createCutOff: if -> true'
  }),
  ...inFile('group-commit/estimate.ts', 'group-commit/bounds', {
    'a slice is not doubled': 'limitsOf: call limit 1/2 -> $1($2, 0)',
    'busy lanes are forgotten': 'expectMs: if -> true',
    'a look-up gets no more time': 'limitsOf: if lookUp -> false',
    'new rows are cut off before their lock': 'limitsOf: call max 1/2 -> $3'
  }),
  ...inFile('group-commit/estimate.ts', 'group-commit/slices', {
    'new rows get no more time after one was cut off': 'noteCutOff: statement -> ;'
  }),
  ...inFile('group-commit/group-commit.ts', nothingStored, {
    '"stored nothing" after an open attempt': '#expire: if mayBeStored -> $2',
    '"stored nothing" while an attempt runs': '#expire: if mayBeStored -> $1'
  }),
  ...inFile('group-commit/group-commit.ts', 'group-commit/bounds', {
    'results are those of the rows that still wait':
      "#apply: call entries -> arguments[0].toSorted((a, b) => (a.state === 'done') - (b.state === 'done')).entries()"
  }),
  ...inFile('group-commit/group-commit.ts', failure, {
    'half of what is split is dropped': '#apply: for record -> for ($1 of $2.slice($2.length >> 1)) $3'
  }),
  ...inFile('group-commit/group-commit.ts', 'group-commit/outages', {
    'pauses go on when the database is back': '#onOutageChange: statement reset -> ;'
  }),
  ...inFile('group-commit/group-commit.ts', /never ends|crashes/, {
    'a rest does not end with its row': '#expire: statement cancelRest -> ;',
    'a row that has expired is tried': '#expire: statement withdraw -> ;'
  }),
  ...inFile('group-commit/group-commit.ts', onWire, {
    'a lane that is free before its attempt has ended': `#run: await -> await Promise.race([$1, new Promise((resolve) =>
      arguments[1][0].attempt.signal.addEventListener('abort', () =>
        resolve({ failure: { error: new Error(), kind: 'busy' } })))])`,
    'a row that has expired frees its id, though its attempt runs': [
      '#expire: return expire -> (this.#queue.releaseId(arguments[0]), $0)',
      '#apply: statement releaseId -> ;'
    ]
  }),
  ...inFile('group-commit/row.ts', /never ends/, {
    'a create that is given up without a word':
      'settle: call reject -> arguments[0] instanceof NotCommitted || this.resolve($2, $3)'
  }),
  ...inFile('group-commit/outage.ts', failure, {
    'the first failing probe is the last': 'look: statement probePauseMs -> ;'
  }),
  ...inFile('group-commit/queue.ts', /deadlock/, { 'rows that are not sorted': 'take: statement sort -> ;' }),
  ...inFile('group-commit/pace.ts', 'group-commit/slices', {
    'attempts that all fail come at any rate': 'tryToBegin: if failuresBeforeRate -> false'
  }),
  ...inFile('group-commit/queue.ts', 'group-commit/lanes', {
    'rows that are sorted as doubles': 'take: if id -> Number($1) < Number($2)'
  }),
  ...inFile('group-commit/lane-policy.ts', 'group-commit/failures', {
    'look-ups take every lane': '#mayStart: return lookUp -> true'
  }),
  ...inFile('group-commit/queue.ts', 'group-commit/slices', {
    'callers do not take turns': 'take: statement endTurn -> ;'
  }),
  ...inFile('group-commit/lane-policy.ts', 'group-commit/slices', {
    'rows that take long take more than a lane': '#mayStart: return longTrial -> $2',
    'rows that take long go before first trials': '#mayStart: operand isWaiting firstTrial -> false',
    'first trials leave others no turn': 'choose: if #lastKind -> false',
    'successes outlive what they were of':
      "end: statement firstTrial -> { if (arguments[0] !== 'newRows') this.#successes[arguments[0]] = 0 }",
    'suspects leave no lane to the others': '#mayStart: call max -> this.#limits.lanes',
    'parts are as large as batches': 'mostRows: operand partRows -> this.#limits.batchRows',
    'successes let no more go together': 'end: if newRows -> false'
  }),
  ...inFile('group-commit/row.ts', nothingStored, {
    'a later failure forgets that an earlier one was open': [
      'record: if lost -> $2',
      "record: value mayBeStored -> arguments[0] === 'lost'"
    ]
  }),
  ...inFile('group-commit/row.ts', 'group-commit/failures', {
    'a refusal after an open attempt is told as one':
      'toError: if mayBeStored -> $0 && !this.#history.refusal',
    'a missing row is told as "stored nothing"': 'toError: if mayBeStored -> $0 && this.#history.refusal',
    'a look-up that is lost has stored its row': 'record: if lost -> $1',
    'the error of a look-up is told as a refusal': 'toError: if looksUp -> false'
  }),
  ...inFile('group-commit/row.ts', 'group-commit/bounds', {
    'an attempt that nobody waits for is not given up': 'expire: statement #waiting 1/2 -> ;'
  }),
  ...inFile('group-commit/row.ts', 'group-commit/slices', {
    'the next of an id is not alone': 'handOn: if partRows -> false',
    'a row that fails alone gets no more time': '#countFailure: statement doublings -> ;'
  }),
  ...inFile('group-commit/table.ts', failure, {
    'no attempt after an open outcome':
      "next: return mayBeStored -> arguments[1] === 'lost' && !arguments[0].looksUp ? fail : $0"
  }),
  ...inFile('group-commit/table.ts', 'group-commit/failures', {
    'an error before a look': 'afterInsert: value refused -> [part, fail]'
  }),
  ...inFile('group-commit/table.ts', 'group-commit/table', {
    'what an insert leaves out is not looked up': 'afterInsert: value nothing -> [rest, rest]',
    'what cannot be decided is told though the row may be stored': 'next: if mayBeStored -> false',
    'chance is not repeated': 'next: if chance -> false',
    'chance is repeated for ever': 'next: if chance -> $1',
    'rows that failed together stay together': 'afterInsert: value busy -> [repeat, rest]',
    'a row that is not found forgets its refusal': 'next: operand refusal -> false',
    'a row that is left out is tried for ever': 'next: operand misses -> 0',
    'a look-up that is refused is repeated for ever': 'afterFind: value refused -> [part, rest]'
  }),
  ...inFile('shared/clock.ts', 'shared/clock', { 'the wall clock': 'systemClock: call now -> Date.now()' }),
  ...inFile('plants/columns.ts', falsehood, {
    'an empty text is as good as none': 'writeContent: return undefined -> $1',
    'a field is not compared': "writeContent: argument undefined -> (column) => column[0] !== 'tag'"
  }),
  ...inFile('plants/plugin.ts', 'plants/plugin', {
    'no connection for the probe': 'probeSessions: value -> 0'
  }),
  ...inFile('plants/repository.ts', /drawn for a key/, {
    'a keyed plant gets a random write id': 'create: call deriveWriteId -> randomWriteId()'
  }),
  ...inFile('plants/repository.ts', nothingStored, {
    'an open outcome is told as "stored nothing"': "failureNames: value unknown -> 'DeadlineExceeded'"
  }),
  ...inFile('plants/write-id.ts', falsehood, {
    'created and replayed are swapped': 'outcomeOf: if mayBeStored -> !($0)',
    'any content is the same':
      'outcomeOf: if isSame -> arguments[0].idempotencyKey && isOfSameKey(arguments[1], arguments[0].writeId)',
    'any row is its own': 'outcomeOf: if writeId 1/2 -> $1',
    "what is found is a repeat's own":
      "outcomeOf: return Failure -> arguments[0].idempotencyKey ? $0 : 'created'",
    'any key is the same': 'outcomeOf: if isOfSameKey -> $1'
  }),
  ...inFile('plants/write-id.ts', 'plants/sql-store', {
    'the content of version 1.0.0 is not compared':
      'outcomeOf: if isSame -> isFormer(arguments[0], arguments[1])'
  }),
  ...inFile('plants/sql-store.ts', falsehood, {
    'one write that was made stands for all': 'insert: if length -> $1 > 0'
  }),
  ...inFile('plants/sql-store.ts', 'plants/plugin', {
    'a look-up without the signal': 'find: call query -> $1($2)'
  }),
  ...inFile('plants/write-id.ts', /two keys/, {
    'a key is the same for all callers': "hashKey: value -> (caller, key) => hash('sha256', key)"
  }),
  ...inFile('plants/statements.ts', falsehood, {
    'a write is known by its id alone': 'insert: words returning write_id -> returning id as write_id',
    'what is found is merely visible': 'find: operand waitForStandby -> null'
  }),
  ...inFile('plants/statements.ts', 'faults/bad-rows', {
    'a commit does not wait where the session says so': "settings: words 'off', 'local' -> 'never'"
  })
]
