/** The server over group commit with storage that holds each batch for a moment, as a commit does, and takes no CPU. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import { heldMs } from '../simulation/held.ts'
import { serve } from './serve.ts'

const store = {
  write: async (rows: readonly unknown[]) => {
    await sleep(heldMs)
    return rows.map(() => undefined)
  },
  classify: () => 'fatal' as const,
  probe: async () => {}
}

await serve(({ write }) => {
  const { submit } = createGroupCommit<{ id: bigint; bytes: number }, undefined>(store, write)
  return { create: ({ id }) => submit({ id, bytes: 64 }) }
})
