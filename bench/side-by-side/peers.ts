/** Those that are compared: this service, and the same operation on what else it could have been built with. */
import { join } from 'node:path'
import { findProgram, type Program } from '../server.ts'

/** Holds what builds the peers, and a package for each of them. */
export const peersDirectory = join(import.meta.dirname, '../peers')

/** One that is compared. */
export interface Peer {
  /** What it is made of. */
  title: string
  program: Program
}

/** In the order of their turns. */
export const peers: Peer[] = [
  { title: 'this service', program: findProgram('service') },
  peer('Express + pg', 'express-pg', ['src/server.js']),
  peer('Hono + Postgres.js', 'hono-postgres', ['dist/server.js']),
  peer('Fastify + Drizzle', 'fastify-drizzle', ['dist/server.js']),
  peer('Fastify + Prisma', 'fastify-prisma', ['dist/server.js']),
  peer('NestJS + TypeORM', 'nest-typeorm', ['dist/main.js']),
  peer('Platformatic DB', 'platformatic-db', ['node_modules/wattpm/bin/cli.js', 'start'])
]

function peer(title: string, name: string, args: string[]): Peer {
  return { title, program: { name, args, directory: join(peersDirectory, name), errors: 'log' } }
}
