/** The service under simulation: its repository as the product wires it, down to the driver's socket. */
import { pathToFileURL } from 'node:url'
import type { NewPlant } from '../../src/plants/schema.ts'
import type { Operation } from '../support/histories/history.ts'
import { toPlant } from '../support/plants.ts'

/** What a client gets. */
export interface Response {
  readonly response: NonNullable<Operation['response']>
  /** The header field `Write-Outcome`. */
  readonly writeOutcome?: string | undefined
  /** What became of a plant that is stored. */
  readonly stored?: 'created' | 'replayed'
}

/** A create as the route hands it in. */
export interface Create {
  readonly plant: NewPlant
  readonly caller: string
  readonly key?: string | undefined
}

/** The parts of `src` that are simulated. Only this file knows how they are made. */
export interface Service {
  /** It listens. */
  start(): void
  create(create: Create, respond: (response: Response) => void): void
  /** The URL of the database has changed, to one that leads there too. */
  reconnect(): void
  close(): Promise<void>
}

/** The settings of a service. */
export interface Settings {
  lanes: number
  batchRows: number
  batchBytes: number
  queueRows: number
  queueBytes: number
  deadlineMs: number
  /** Both servers by their addresses, instead of one that follows the primary. */
  hasHosts: boolean
}

/** Loads the sources below a folder, once the machine's time is replaced; returns how services and write ids are made. */
export async function loadService(src: string) {
  const load = <Module>(path: string): Promise<Module> => import(pathToFileURL(`${src}/${path}`).href)
  const { toFailure, toResponse } = await load<typeof import('../../src/failures.ts')>('failures.ts')
  const { Database } = await load<typeof import('../../src/database/database.ts')>('database/database.ts')
  const { openRepository } = await load<typeof import('../../src/plants/plugin.ts')>('plants/plugin.ts')
  const { parseDatabaseUrl } = await load<typeof import('../../src/database/url.ts')>('database/url.ts')
  const { deriveWriteId } = await load<typeof import('../../src/plants/write-id.ts')>('plants/write-id.ts')
  const { writeContent } = await load<typeof import('../../src/plants/columns.ts')>('plants/columns.ts')
  const writeIdOf = (caller: string, key: string, plant: Create['plant']) =>
    deriveWriteId(caller, key, writeContent(plant))

  function createService(
    { hasHosts, ...write }: Settings,
    stream: () => unknown,
    onLog: (text: string) => void
  ): Service {
    const log = { warn: (_: unknown, text: string) => onLog(text), error: onLog, info: onLog } as never
    const hosts = hasHosts ? 'a:5432,b:5432' : 'database:5432'
    const connect = () => ({ ...parseDatabaseUrl(`postgres://simulated@${hosts}/plants`), stream }) as never
    const observer = { onStored() {}, onAttempt() {} }
    const database = new Database(connect(), log)
    const plants = openRepository(database, { write }, log, observer)
    return {
      start: () => plants.watch(),
      create({ plant, caller, key }, respond) {
        plants.create(plant, { caller, idempotencyKey: key }).then(
          ({ stored, release }) => {
            release()
            respond({ response: { status: 200, body: toPlant(plant) }, stored })
          },
          (thrown: unknown) => {
            const { status, headers, body } = toResponse(toFailure(thrown))
            respond({ response: { status, body: JSON.parse(body) }, writeOutcome: headers['write-outcome'] })
          }
        )
      },
      reconnect: () => database.replaceOptions(connect()),
      async close() {
        await plants.close()
        database.end()
      }
    }
  }

  return { createService, writeIdOf }
}
