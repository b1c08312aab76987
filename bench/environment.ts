/** All that a benchmark starts; it ends with the benchmark, even after a failure or Ctrl-C. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Server as Postgres } from '../test/support/postgres/embedded-postgres.ts'
import { createDatabase, startDurablePostgres } from './database.ts'
import { findProgram, type Program, type Server, type servers, startServer } from './server.ts'

/** Where a benchmark works. */
export interface Environment {
  /** A temporary directory on a disk. */
  directory: string
  readonly postgres: Postgres
  /** Starts PostgreSQL again, at the same address, after it was stopped. */
  restartPostgres(): Promise<void>
  /** Makes a migrated database and returns its URL. */
  createDatabase(name: string): Promise<string>
  startServer(program: keyof typeof servers | Program, databaseUrl: string): Promise<Server>
}

/** Does the work in an environment of its own, and removes it. */
export async function inEnvironment(work: (environment: Environment) => Promise<void>): Promise<void> {
  const ends: (() => Promise<void>)[] = []
  const end = async () => {
    for (let next = ends.pop(); next; next = ends.pop()) await next()
  }
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => reject(new Error(`ended by ${signal}`)))
    }
  })
  interrupted.catch(() => {}) // it can come before anybody waits for it
  try {
    const directory = await mkdtemp(join(tmpdir(), 'plant-store-bench-'))
    ends.push(() => rm(directory, { recursive: true, force: true }))
    let postgres = await startDurablePostgres(directory)
    ends.push(() => postgres.stop())
    const environment: Environment = {
      directory,
      get postgres() {
        return postgres
      },
      restartPostgres: async () => {
        const { port } = new URL(postgres.url('postgres'))
        postgres = await startDurablePostgres(directory, Number(port))
      },
      createDatabase: (name) => createDatabase(postgres.url, name),
      startServer: async (program, databaseUrl) => {
        const known = typeof program === 'string' ? findProgram(program) : program
        const server = await startServer(known, databaseUrl, directory)
        ends.push(() => server.stop())
        return server
      }
    }
    await Promise.race([work(environment), interrupted])
  } finally {
    await end()
  }
}
