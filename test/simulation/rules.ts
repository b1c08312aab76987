/** The rules that a simulation is judged by when it has ended. */

import type { Operation } from '../../dev/histories/history.ts'
import { judgeHistory } from '../../dev/histories/judge.ts'
import type { Simulation } from './simulation.ts'
import { badName } from './statement.ts'

/** How long a service may take to notice that the database is back: a probe that hangs, and the pause to the next. */
export const recoveryMs = 5_000

/** Less than this is no time for a repeat: an attempt over a lost connection takes a third of it and a second. */
const patientMs = 3000

/** Gives a line for each violation. */
export function judge({ cluster, clients, settings, world }: Simulation, healedAt: number): string[] {
  const rows = [...cluster.leader.table.values()].map(({ id, name, tag }) => ({
    id: id as string,
    name: name as string,
    ...(tag === null || tag === undefined ? {} : { tag })
  }))
  const { operations } = clients
  const late = operations.filter(({ began }) => began >= healedAt)
  return [
    ...judgeHistory(operations, rows),
    ...(world.count('fails: XX000') > 0 ? [] : operations.filter(isInternal)).map(
      ({ id }) => `nothing explains an internal error: ${id}`
    ),
    ...operations.filter(isWronglyRefused).map(({ id }) => `a good plant is refused: ${id}`),
    ...late.flatMap((operation) => judgeLate(operation, healedAt, settings.deadlineMs >= patientMs))
  ]
}

const messageOf = ({ response }: Operation) =>
  response && 'message' in response.body ? response.body.message : undefined

const isInternal = (operation: Operation) => messageOf(operation) === 'internal error'

const isWronglyRefused = (operation: Operation) =>
  operation.name !== badName && messageOf(operation)?.includes('breaks a rule')

/** Judges a create that began after all was healed: it has a response, and one that is no failure of the service. */
function judgeLate(operation: Operation, healedAt: number, isPatient: boolean): string[] {
  const { began, response, id } = operation
  const message = messageOf(operation)
  const isAway = message?.includes('away')
  if (!(isPatient || isAway)) return []
  if (!response) return [`a create after all is healed gets no response: ${id}`]
  if (message === undefined || (response.body as { error: number }).error < 500) return []
  // After a lost connection nobody knows whether the table has refused it because it is there.
  if (operation.name === badName) return []
  // The service may not have noticed yet.
  if (isAway && began < healedAt + recoveryMs) return []
  return [`a create after all is healed fails: ${id} ${message}`]
}
