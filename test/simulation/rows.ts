/** Plants that are the cause of a failure: what the table makes of them, by their names, as triggers and pages do. */

import type { Trouble } from '../support/postgres/model/protocol.ts'

/** What a plant causes. */
export interface Cause {
  /** Each statement that inserts it fails. */
  readonly trouble?: Trouble
  /** The error comes with the commit, after the result. */
  readonly isDeferred?: boolean
  /** How much longer each statement takes that inserts it, in ms. */
  readonly ms?: number
  /** It is stored, but reading its content fails. */
  readonly isDamaged?: boolean
  /** A trigger stores this name instead. */
  readonly storedAs?: string
  /** A trigger gives it another id. */
  readonly isMoved?: boolean
  /** A trigger silently leaves it out. */
  readonly isSkipped?: boolean
  /** Its name has this many more letters. */
  readonly letters?: number
  /** It is refused or stored at once, so that the next create of its id need not wait. */
  readonly isQuick?: boolean
}

const where = 'PL/pgSQL function check_plant() line 3 at RAISE'
const raise = (code: string, more?: Partial<Trouble>): Cause => ({ trouble: { code, where, ...more } })

/** A row of this length cannot be sent within the limit of a statement. */
const largeLetters = 300_000

/** The causes, by the names of the plants. */
export const causes = {
  'breaks a constraint': { trouble: { code: '23514' }, isQuick: true },
  'breaks a deferred constraint': { ...raise('23514'), isDeferred: true, isQuick: true },
  'never ends': { ms: 3_600_000 },
  'takes long': { ms: 400 },
  'fails to serialize': raise('40001'),
  'fails to serialize at its commit': { trouble: { code: '40001' }, isDeferred: true },
  'has an internal error': raise('XX000'),
  'fills the disk': raise('53100'),
  'loses a remote connection': raise('08006'),
  'loses a remote connection at its commit': { ...raise('08006'), isDeferred: true },
  'exceeds the transaction time-out': { ms: 200, trouble: { code: '25P04', severity: 'FATAL' } },
  'ends its session': raise('57P01', { severity: 'FATAL' }),
  'breaks its session': raise('XX000', { severity: 'FATAL' }),
  'calls a missing function': raise('42883'),
  'reads a missing table': raise('42P01'),
  'is denied': raise('42501'),
  'is damaged': { isDamaged: true, isQuick: true },
  'is rewritten': { storedAs: 'rewritten', isQuick: true },
  'is left out': { isSkipped: true },
  'gets another id': { isMoved: true, isQuick: true },
  'is larger than the link': { letters: largeLetters }
} satisfies Record<string, Cause>

export type CauseName = keyof typeof causes

/** Returns what a plant with this name causes; undefined for a good one. */
export const causeOf = (name: string | null | undefined): Cause | undefined =>
  (causes as Record<string, Cause>)[name?.split('.')[0] ?? '']

/** Returns the name of a plant that is such a cause. */
export const nameOf = (cause: CauseName): string => {
  const { letters = 0 }: Cause = causes[cause]
  return letters > 0 ? `${cause}.${'x'.repeat(letters)}` : cause
}

const farAway = 2n ** 40n

/** Returns the id that a plant with this name and id gets in the table. */
export function storedIdOf(name: string, id: string): string {
  if (!causeOf(name)?.isMoved) return id
  return `${BigInt(id) > 0n ? BigInt(id) - farAway : BigInt(id) + farAway}`
}

/** Returns the name that the table holds when a plant with this name is stored. */
export const storedNameOf = (name: string): string => causeOf(name)?.storedAs ?? name
