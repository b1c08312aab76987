/** How the requests of each caller ended: which client fails with what. */
import { catalogue, type FailureName } from '../failures/catalogue.ts'

/** What a client got for a request; `ClientLeft` if it left before its response. */
export type Result = 'Success' | 'ClientLeft' | FailureName

/** The requests of further callers count together: names of tokens may come and go. */
export const mostCallers = 100

const names = Object.keys(catalogue) as FailureName[]
/** Prometheus must see a series at 0 first: one that begins with its first failure shows no increase. */
const countedFromStart: Result[] = [
  'Success',
  ...names.filter((name) => [500, 503].includes(catalogue[name].error))
]

/** Counts how the requests of each caller ended. */
export function createCallerCounts() {
  const byCaller = new Map<string, Partial<Record<Result, number>>>()
  function add(caller: string) {
    const counts: Partial<Record<Result, number>> = Object.fromEntries(
      countedFromStart.map((result) => [result, 0])
    )
    byCaller.set(caller, counts)
    return counts
  }
  // No token can have a name with brackets.
  const withoutToken = add('(none)')
  const others = add('(other)')
  const mostSeries = byCaller.size + mostCallers
  return {
    /** Counts a request; `caller` is empty without a valid token. */
    add(caller: string, result: Result) {
      let counts = caller === '' ? withoutToken : byCaller.get(caller)
      counts ??= byCaller.size < mostSeries ? add(caller) : others
      counts[result] = (counts[result] ?? 0) + 1
    },
    /** Returns how many responses were each failure, to all callers together. */
    readFailures: () =>
      Object.fromEntries(
        names.map((name) => [
          name,
          [...byCaller.values()].reduce((sum, counts) => sum + (counts[name] ?? 0), 0)
        ])
      ),
    /** Returns each count, with its labels. */
    read: () =>
      [...byCaller].flatMap(([caller, counts]) =>
        Object.entries(counts).map(([result, value]) => ({ labels: { caller, result }, value }))
      )
  }
}
