/** All awkward requests, one peer after the other. */
import { clear } from '../database.ts'
import type { Environment } from '../environment.ts'
import { bodyOf, cases } from './cases.ts'
import { type Fact, judge, readRows } from './facts.ts'
import { interruptDatabase, type Running, terminate } from './interruptions.ts'
import { post } from './post.ts'

/** Returns the facts of each peer; none of them runs afterwards. */
export async function gatherFacts(environment: Environment, running: Running[]): Promise<Fact[][]> {
  const facts: Fact[][] = []
  for (const { server, databaseUrl } of running) {
    const own: Fact[] = []
    for (const asked of cases) {
      await clear(databaseUrl)
      for (const row of asked.before) await post(server.url, bodyOf(row))
      const outcome = await post(server.url, asked.body)
      own.push(judge(asked, outcome, await readRows(databaseUrl)))
    }
    facts.push(own)
  }
  const interrupted = await interruptDatabase(environment, running)
  const ended: Fact[] = []
  for (const one of running) {
    // One that has not outlived the outage is told to end in its next life.
    const { program, databaseUrl, server } = one
    ended.push(
      await terminate(
        server.hasEnded() ? { ...one, server: await environment.startServer(program, databaseUrl) } : one
      )
    )
  }
  return facts.map((own, index) => [...own, ...(interrupted[index] ?? []), ended[index] as Fact])
}
