/** The contenders of the comparison, each measured on an empty table of one database. */
import { setTimeout as sleep } from 'node:timers/promises'
import { checkpoint, clear, countPlants } from './database.ts'
import type { Environment } from './environment.ts'
import type { Generator } from './load/http.ts'
import type { Load } from './load/load.ts'
import { loadByPgbench, type Pgbench } from './load/pgbench.ts'
import { type Figures, measure } from './measure.ts'
import type { Server } from './server.ts'

/** The servers that are compared. */
const servers = ['service', 'as documented', 'one insert a request', 'bare Fastify'] as const
export type ContenderName = (typeof servers)[number] | 'pgbench'

/** A server or pgbench, as it is measured. */
export interface Contender {
  name: ContenderName
  measure(connections: number, seconds: number): Promise<Figures>
}

/** The load on every server before its first turn. */
export const firstWarmUp = { connections: 64, seconds: 3 }
const warmUpSeconds = 1
/** How long a server may take to finish the requests that are open when a load ends. */
const settleMs = 250

/** Starts the servers, warm, and returns them in the order of their turns; pgbench only where it is there. */
export async function startContenders(
  environment: Environment,
  generator: Generator,
  pgbench?: Pgbench
): Promise<Contender[]> {
  const url = await environment.createDatabase('plants')
  const postgres = environment.postgres.process.pid
  const contenders: Contender[] = []
  for (const name of servers) {
    const server = await environment.startServer(name, url)
    await generator.load(server.url, { ...firstWarmUp, ids: 'safe' })
    contenders.push({
      name,
      measure: async (connections, seconds) => {
        // Not every contender keeps ids beyond 2^53 apart.
        const load = { connections, seconds, ids: 'safe' } as const
        return countLost(await measureServer(environment, generator, server, url, load), url)
      }
    })
  }
  if (pgbench) {
    contenders.push({
      name: 'pgbench',
      measure: async (_, seconds) => {
        await settle(url)
        const load = () => loadByPgbench(pgbench, url, seconds, environment.directory)
        return countLost(await measure({ postgres }, load), url)
      }
    })
  }
  return contenders
}

/** Measures a server after a second of the same load, on an empty table. */
export async function measureServer(
  environment: Environment,
  generator: Generator,
  server: Server,
  url: string,
  load: Load
): Promise<Figures> {
  await generator.load(server.url, { ...load, seconds: warmUpSeconds })
  await server.clearLog()
  await settle(url)
  const subjects = { postgres: environment.postgres.process.pid, server: server.pid }
  return measure(subjects, () => generator.load(server.url, load))
}

async function settle(url: string) {
  await sleep(settleMs)
  await clear(url)
  await checkpoint(url)
}

/** A plant that was acknowledged and is not stored is an error. */
export async function countLost(figures: Figures, url: string): Promise<Figures> {
  const lost = Math.max(0, figures.plants - (await countPlants(url)))
  return { ...figures, errors: figures.errors + lost }
}
