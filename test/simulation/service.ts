/** The service under simulation: its write path, from the repository's `create` down to the driver's socket. */
import { pathToFileURL } from 'node:url'

import type { Operation } from '../../dev/histories/history.ts'

/** What a client is told. */
export type Response = NonNullable<Operation['response']>

/** How the parts of `src` are made that are simulated: the only place that knows. */
export interface Service {
  create(
    plant: { id: bigint; name: string; tag?: string },
    key: string | undefined,
    respond: (response: Response) => void
  ): void
  close(): Promise<void>
}

/** The settings of a service. */
export interface Settings {
  lanes: number
  batchRows: number
  deadlineMs: number
}

/** Loads the sources below a folder, once the machine's time is replaced; gives what makes a service. */
export async function loadService(src: string) {
  const load = <Module>(path: string): Promise<Module> => import(pathToFileURL(`${src}/${path}`).href)
  const { createPool } = await load<typeof import('../../src/database/pool.ts')>('database/pool.ts')
  const { toFailure } = await load<typeof import('../../src/failures/failure.ts')>('failures/failure.ts')
  const { createPlantRepository } =
    await load<typeof import('../../src/plants/repository.ts')>('plants/repository.ts')

  return (
    { lanes, batchRows, deadlineMs }: Settings,
    stream: () => unknown,
    onLog: (text: string) => void
  ): Service => {
    const log = { warn: (_: unknown, text: string) => onLog(text), error: onLog, info: onLog } as never
    const connection = {
      host: 'database',
      port: 5432,
      user: 'simulated',
      database: 'plants',
      stream
    } as never
    // As storage.ts makes it.
    const database = createPool({ connection, size: lanes + 1, limitMs: Math.ceil(deadlineMs / 3), log })
    const limits = {
      lanes,
      batchRows,
      batchBytes: 2 ** 20,
      queueRows: 2 ** 14,
      queueBytes: 2 ** 26,
      deadlineMs
    }
    const repository = createPlantRepository(database, limits, log, { onStored() {}, onAttempt() {} })
    return {
      create(plant, key, respond) {
        const { name, tag } = plant
        const body = tag === undefined ? { name } : { name, tag }
        repository.create(plant, { caller: 'simulated', idempotencyKey: key }).then(
          () => respond({ status: 200, body }),
          (error: unknown) => {
            const { error: number, message } = toFailure(error)
            respond({ status: 400, body: { error: number, message } })
          }
        )
      },
      async close() {
        await repository.close()
        await database.end()
      }
    }
  }
}
