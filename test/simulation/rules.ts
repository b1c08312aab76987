/** The rules that a simulation is judged by when it has ended. */

import { columns } from '../../src/plants/columns.ts'
import { Plant } from '../../src/plants/schema.ts'
import type { Operation, StoredRow } from '../support/histories/history.ts'
import { judgeHistory } from '../support/histories/judge.ts'
import { fields, isSamePlant } from '../support/plants.ts'
import type { Columns } from '../support/postgres/model/sql.ts'
import type { Request } from './clients.ts'
import { causeOf, storedNameOf } from './rows.ts'
import { innocent } from './schedule.ts'
import type { Simulation } from './simulation.ts'

/** How long a service may take to notice that the database is back: a probe that hangs, and the pause to the next. */
export const recoveryMs = 5_000

/** The shortest deadline that has time for a repeat: an attempt over a lost connection takes a third of the deadline and a second. */
const patientMs = 3000

/** Returns a line for each violation. */
export function judge(simulation: Simulation, healedAt: number): string[] {
  const { cluster, clients, world } = simulation
  const { requests } = clients
  const all = [...cluster.leader.table.values()]
  const isMoved = ({ name }: { name?: string | null }) => causeOf(name)?.isMoved === true
  const rows = all.filter((row) => !isMoved(row))
  // If a trigger rewrites a plant, nobody knows whether the content is the same.
  const rewritten = new Set(
    requests.filter(({ name }) => causeOf(name)?.storedAs || isMoved({ name })).map(({ id }) => id)
  )
  const isPlain = ({ id }: { id: string }) => !rewritten.has(id)
  return [
    ...new Attribution(simulation, rows).judge(),
    ...judgeHistory(requests.filter(isPlain).map(toOperation), rows.map(toStoredRow).filter(isPlain)),
    ...requests
      .filter(isInternal)
      .filter(
        ({ name, began, ended = 0 }) =>
          !causeOf(name)?.isSkipped && !isMoved({ name }) && !world.hasReached(broken, began, ended)
      )
      .map(({ id }) => `nothing explains an internal error: ${id}`),
    ...requests
      .filter(
        (request) =>
          isRefused(request) &&
          !causeOf(request.name) &&
          !world.hasReached(rules, request.began, request.ended ?? 0)
      )
      .map(({ id }) => `a good plant is refused: ${id}`),
    ...judgeCrowd(simulation),
    ...judgeMoved(simulation, all.filter(isMoved)),
    ...judgeLiveness(simulation, healedAt)
  ]
}

/** What explains an internal error. */
const broken = ['XX000', 'XX001', '42883', '42501', '42P01', '0A000', '57000', '58000', '58030'].map(
  (code) => `fails: ${code}`
)

const messageOf = ({ response }: Request) =>
  response && 'message' in response.body ? response.body.message : undefined
const errorOf = ({ response }: Request) => (response && 'error' in response.body ? response.body.error : 0)

const isInternal = (request: Request) => messageOf(request) === 'internal error'

const isRefused = (request: Request) => messageOf(request)?.includes('breaks a rule') === true
/** What explains that a plant is refused which is no cause itself. */
const rules = ['42501', '23514', '22001', 'P0001'].map((code) => `fails: ${code}`)

/** Removes what only the model knows. */
const toOperation = ({ process: _, writeId: __, ...operation }: Request): Operation => operation

/** The model keeps every value as its text. */
function toStoredRow(row: Columns): StoredRow {
  const values = fields.flatMap((field) => {
    const text = row[columns[field].name]
    if (typeof text !== 'string') return []
    return [[field, Plant.properties[field].type === 'string' ? text : JSON.parse(text)]]
  })
  return { id: row.id, ...Object.fromEntries(values) }
}

/** Compares the responses with the rows that their writes have left: each row is known by its write id. */
class Attribution {
  readonly #simulation: Simulation
  readonly #rows: Map<string, Columns>
  readonly #byWrite: Map<string, Request[]>
  /** When a client was first told that an id is stored. */
  readonly #storedAt = new Map<string, number>()

  constructor(simulation: Simulation, rows: Columns[]) {
    this.#simulation = simulation
    this.#rows = new Map(rows.map((row) => [row.id as string, row]))
    const taken = simulation.clients.requests.filter(({ writeId }) => writeId !== undefined)
    this.#byWrite = Map.groupBy(taken, ({ id, writeId }) => `${id} ${writeId}`)
    for (const request of simulation.clients.requests) {
      const { id, name, ended = Number.POSITIVE_INFINITY, response } = request
      if (response && errorOf(request) === 0 && !causeOf(name)?.isMoved)
        this.#storedAt.set(id, Math.min(ended, this.#storedAt.get(id) ?? ended))
    }
  }

  judge(): string[] {
    const { requests } = this.#simulation.clients
    const keys = Map.groupBy(requests, ({ writeId }) => writeId)
    keys.delete(undefined)
    return [
      ...[...keys.values()]
        .filter((sharers) => new Set(sharers.map(({ key }) => key)).size > 1)
        .map(([first]) => `two keys have one write id: ${first?.key}`),
      ...[...this.#rows.values()]
        .filter(({ id, write_id }) => !this.#byWrite.has(`${id} ${write_id}`))
        .map(({ id }) => `a row of a write that nobody has sent: ${id}`),
      ...requests.flatMap((request) => {
        const fault = this.#judgeOne(request)
        return fault === undefined ? [] : [`${fault}: ${request.id} ${request.name.slice(0, 40)}`]
      })
    ]
  }

  #judgeOne(request: Request): string | undefined {
    const { id, writeId, response, began, ended = 0, stored, key } = request
    const row = this.#rows.get(id)
    const isOwn = row !== undefined && row.write_id === writeId
    const isOfSameKey = key !== undefined && this.#keyOf(row) === key
    const insert = this.#simulation.world.inserts.get(row?.transaction ?? '')
    const isSame = row && isSamePlant(toStoredRow(row), { ...request, name: storedNameOf(request.name) })
    if (response === undefined || causeOf(request.name)?.isMoved) return undefined
    if (errorOf(request) === 0) {
      if (!isOwn) return 'told "stored", but its row is not there'
      if (!isSame) return 'told "stored", but its row has other content'
      if (stored === 'replayed' && key === undefined) return 'told "replayed" without a key'
      if (stored === 'replayed' && this.#hasInserted(request, row))
        return 'told "replayed" by the request that has stored it'
      // After several attempts, or one without a result, a service does not know which of them has stored it.
      const times = this.#simulation.world.known.get(`${request.process.name} ${id} ${writeId}`) ?? []
      const isKnown = [this.#sendsOf(request), times].every(
        (all) => all.filter((at) => began <= at && at <= ended).length === 1
      )
      return isKnown && stored === 'created' && insert && insert.at < began
        ? 'told "created" of a plant that was stored before'
        : undefined
    }
    if (errorOf(request) === 409) {
      if (row === undefined) return 'told "taken", but nothing is there'
      if (isOwn || isOfSameKey) return 'told "taken" by its own row'
      return insert && insert.at > ended ? 'told "taken" by a row that came later' : undefined
    }
    if (messageOf(request)?.includes('Idempotency-Key')) {
      if (!isOfSameKey) return 'told "reused", but the row is of another key'
      return isOwn ? 'told "reused" with the same content' : undefined
    }
    const { world } = this.#simulation
    const isFound =
      (this.#storedAt.get(id) ?? ended) < began && !world.hasReached(['find fails'], began, ended)
    if (isRefused(request) && isFound) return 'told "refused", but its id was stored before'
    const isNothing = request.writeOutcome === 'none' || isRefused(request)
    // Without a key, nobody else can have stored its row, not even after the response.
    if (isNothing && isOwn && (key === undefined || this.#hasInserted(request, row)))
      return 'told "nothing stored", but its row is there'
    return this.#hasResult(request) ? 'told "may be stored" though the result had come' : undefined
  }

  #keyOf(row: Columns | undefined): string | undefined {
    return row && this.#byWrite.get(`${row.id} ${row.write_id}`)?.[0]?.key
  }

  /** When the request's process has sent its write. */
  #sendsOf({ id, writeId, process }: Request): number[] {
    return this.#simulation.world.sends.get(`${process.name} ${id} ${writeId}`) ?? []
  }

  /** Whether a row of this request's write was stored by this request, and cannot be another's with its key. */
  #hasInserted(request: Request, row: Columns): boolean {
    const { id, writeId, process } = request
    const insert = this.#simulation.world.inserts.get(row.transaction ?? '')
    if (insert?.by !== process.name) return false
    const sends = this.#sendsOf(request)
    const senders = (this.#byWrite.get(`${id} ${writeId}`) ?? []).filter(
      ({ process, began, respondedAt = Number.POSITIVE_INFINITY }) =>
        process.name === insert.by && sends.some((at) => began <= at && at <= respondedAt && at <= insert.at)
    )
    return senders.length === 1 && senders[0] === request
  }

  /** Whether the database's response had reached the process while it stood still, before it sent its own. */
  #hasResult({ id, writeId, process, began, respondedAt = 0, writeOutcome }: Request): boolean {
    const at = this.#simulation.world.responses.get(`${process.name} ${id} ${writeId}`)
    return writeOutcome === 'unknown' && at !== undefined && at >= began && at <= respondedAt
  }
}

/**
 * Judges what the service owes while nothing is wrong with the database and the network, before all is healed and
 * after: a create that causes no failure, and does not wait for one that does, must not fail.
 */
function judgeLiveness({ clients, settings, world }: Simulation, healedAt: number): string[] {
  const { requests } = clients
  const bad = requests.filter(({ name }) => causeOf(name))
  const blocked = new Set(bad.filter(({ name }) => !causeOf(name)?.isQuick).map(({ id }) => id))
  const isPatient = settings.deadlineMs >= patientMs
  const isForgotten = world.troubles.some(([from]) => from >= healedAt)
  const isCramped = isForgotten && settings.lanes * settings.batchRows < 4
  const isCalm = ({ began, ended = Number.POSITIVE_INFINITY }: Request) =>
    !world.troubles.some(([from, to]) => from <= ended && to + settings.deadlineMs + recoveryMs >= began)
  /** Whether no more than one bad plant was under way, or has left something behind. */
  const isNextToOneBad = ({ began, ended = Number.POSITIVE_INFINITY }: Request) => {
    const near = bad.filter(
      ({ respondedAt, ...other }) =>
        other.began <= ended &&
        (respondedAt ?? other.began + settings.deadlineMs) + settings.deadlineMs >= began
    )
    return new Set(near.map(({ id }) => id)).size <= 1
  }

  return requests.flatMap((request) => {
    const { began, response, id, name, ended } = request
    const isLate = began > healedAt
    const message = messageOf(request)
    const isAway = message?.includes('unavailable')
    if (!(isLate || (isCalm(request) && ended !== undefined))) return []
    if (!(isPatient || isAway)) return []
    const when = isLate ? 'after all is healed' : 'while all is well'
    if (!response) return [`a create ${when} gets no response: ${id}`]
    if (errorOf(request) < 500 || causeOf(name) || blocked.has(id) || !isNextToOneBad(request)) return []
    // A row and a network that fail together may take the time of the others.
    if (bad.length > 0 && !isCalm(request)) return []
    if (message?.includes('too many') && (settings.queueRows < 2 ** 14 || settings.batchBytes < 2 ** 20))
      return []
    // The service may not have noticed yet. A connection that the network has forgotten costs a create most of its
    // deadline, and waiting rows may take the rest.
    const isSoon = isLate && began < healedAt + recoveryMs
    if (isSoon && (isAway || (isCramped && errorOf(request) === 503))) return []
    return [`a create ${when} fails${bad.length > 0 ? ' next to a bad row' : ''}: ${id} ${message}`]
  })
}

/** The part of its deadline in which an innocent create must be stored, whatever crowd is next to it. */
const crowdedPart = 1 / 3

function judgeCrowd({ clients, schedule, settings }: Simulation): string[] {
  if (!schedule.isCrowded) return []
  const mostMs = settings.deadlineMs * crowdedPart
  return clients.requests
    .filter(({ name }) => name === innocent)
    .filter(
      (request) =>
        errorOf(request) > 0 || (request.ended ?? Number.POSITIVE_INFINITY) - request.began > mostMs
    )
    .map(
      (request) =>
        `next to a crowd a good create fails or takes long: ${request.id} ${messageOf(request) ?? ''}`
    )
}

/** While nothing else is wrong, a create makes one row, even if its id is not there. */
function judgeMoved({ clients, schedule }: Simulation, rows: Columns[]): string[] {
  if (schedule.faults.length > 0) return []
  const requests = Map.groupBy(clients.requests, ({ writeId }) => writeId)
  return [...Map.groupBy(rows, ({ write_id }) => write_id)]
    .filter(([writeId, { length }]) => length > (requests.get(writeId ?? undefined)?.length ?? 0))
    .map(([writeId]) => `one create has made several rows: ${writeId}`)
}
