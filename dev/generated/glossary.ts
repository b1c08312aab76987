/** The words of the code, each with one meaning: a part of CONTRIBUTING.md, and what a test looks for. */
import { table } from './markdown.ts'

interface Word {
  readonly meaning: string
  /** What src calls this no longer. */
  readonly retired?: RegExp
}

export const glossary: Readonly<Record<string, Word>> = {
  attempt: { meaning: 'one try to insert rows or to look them up, in one transaction' },
  away: { meaning: 'of the database: it cannot be reached, or writes nothing; also in names of metrics' },
  batch: { meaning: 'the rows of an attempt' },
  caller: { meaning: "the name of a request's token" },
  connection: { meaning: "a client's; in full: a connection to the database" },
  evict: { meaning: 'to close a connection to make room for another', retired: /given up for/ },
  expire: { meaning: 'to pass its deadline without an outcome', retired: /\bgiveUp\b/ },
  failure: { meaning: 'an entry of the catalogue, and the response made of it' },
  fault: { meaning: 'what is wrong with a setting or a file' },
  held: {
    meaning: 'of bytes: counted in a budget; of an id: a row has it',
    retired: /\b(is|are|#is)Held\b|\bletGo\b/
  },
  kind: { meaning: 'of a failed attempt: what its error says about its rows', retired: /\bwhose: '/ },
  lane: { meaning: 'runs one attempt at a time' },
  limit: { meaning: 'the most that is allowed, of time in ms' },
  'look-up': { meaning: 'an attempt that finds out what an id has' },
  outcome: { meaning: 'what a client is told of its write' },
  paused: { meaning: 'of a connection: its client is not read for a while' },
  plant: { meaning: 'what a client sends; stored, it is a row' },
  probe: { meaning: 'asks whether the database serves, or this process', retired: /\bcheckReadiness\b/ },
  release: { meaning: 'a version of the service; as a verb: to give back what was held' },
  result: { meaning: 'what an attempt has shown of a row' },
  row: { meaning: 'a plant on its way through group commit' },
  server: { meaning: "Node's HTTP server; PostgreSQL's by its name" },
  session: { meaning: "PostgreSQL's side of a connection", retired: /\b(is|#)Lent\b|\blend\(/ },
  suspect: {
    meaning: 'a row that goes in trials: an insert with it has failed or left it out',
    retired: /everybody/i
  },
  'write id': { meaning: 'identifies what a create has sent, in its row' }
}

/** Returns the table of the words. */
export const writeGlossary = (): string =>
  table(
    ['word', 'meaning'],
    Object.entries(glossary).map(([word, { meaning }]) => [word, meaning])
  )
