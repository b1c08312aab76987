/** The awkward requests that need nothing but a body. */

/** A row of the table; its id as PostgreSQL prints it. */
export interface Row {
  id: string
  name: string
  tag: string | null
}

/** A request, and what the interface says of it. */
export interface Case {
  title: string
  body: string
  /** What was created before. */
  before: Row[]
  /** The row that the request asks for; none where it is not a valid one. */
  wanted: Row | undefined
  /** Whether a valid request may fail: something other than the request stands against it. */
  mayFail: boolean
}

const fern = { id: '1', name: 'Fern', tag: 'shade' }
const beyond = { ...fern, id: String(2n ** 53n + 1n) }

/** Each is sent to an otherwise empty table. */
export const cases: Case[] = [
  {
    title: 'id 2^53+1',
    body: bodyOf(beyond),
    before: [],
    wanted: beyond,
    mayFail: false
  },
  refused('id "5", a string', '{"id":"5","name":"Fern","tag":"shade"}'),
  refused('tag null', '{"id":1,"name":"Fern","tag":null}'),
  refused('U+0000 in the name', '{"id":1,"name":"Fe\\u0000rn","tag":"shade"}'),
  refused('malformed JSON', '{"id":1,"name":"Fern",'),
  {
    ...refused('an id that exists', '{"id":1,"name":"Moss","tag":"shade"}'),
    before: [fern]
  }
]

function refused(title: string, body: string): Case {
  return { title, body, before: [], wanted: undefined, mayFail: true }
}

/** A valid request with an id of its own, sent at a bad time. */
export function validCase(title: string, id: number): Case {
  const row = { ...fern, id: String(id) }
  return { title, body: bodyOf(row), before: [], wanted: row, mayFail: true }
}

/** Returns the body that asks for a row; the id keeps all its digits. */
export function bodyOf({ id, ...plant }: Row): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`
}
