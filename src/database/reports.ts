/** How often PostgreSQL has reported which SQLSTATE. */

const mostCauses = 5
/** Triggers may raise any code: more than these count together. */
const mostCodes = 64

/** Codes that operators meet, in docs/monitoring.md. Prometheus must see each at 0 first, to notice its first increase. */
export const knownCodes =
  '0A000 22001 23502 23505 23514 25006 26000 28P01 40001 40P01 42501 42703 42804 42P01 42P05 53100 53200 53300 55P03 57014 57P01 58030 P0001 XX000'.split(
    ' '
  )

/** Returns the SQLSTATE that PostgreSQL reported as an error or as its cause, or undefined. */
export function findSqlState(error: unknown): string | undefined {
  let cause = error
  for (let depth = 0; depth < mostCauses && cause instanceof Error; depth++) {
    const { severity, code = '' } = cause as Error & { severity?: string; code?: string }
    if (severity !== undefined && /^[0-9A-Z]{5}$/.test(code)) return code
    cause = cause.cause
  }
  return undefined
}

/** Counts errors by their SQLSTATE, those beyond a number of codes as `other`. */
export function createReportCounts() {
  const counts: Record<string, number> = Object.fromEntries(knownCodes.map((code) => [code, 0]))
  return {
    counts,
    add(error: unknown) {
      const code = findSqlState(error)
      if (code === undefined) return
      const name = code in counts || Object.keys(counts).length < mostCodes ? code : 'other'
      counts[name] = (counts[name] ?? 0) + 1
    }
  }
}
