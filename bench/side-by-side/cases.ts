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
  /** What is in the table before. */
  before: Row[]
  /** The row that the request asks for; none where it is not a valid one. */
  wanted: Row | undefined
  /** Whether a valid request may fail: something other than the request stands against it. */
  mayFail: boolean
}

const fern = { id: '1', name: 'Fern', tag: 'shade' }

/** Each is sent to an otherwise empty table. */
export const cases: Case[] = [
  {
    title: 'id 2^53+1',
    body: '{"id":9007199254740993,"name":"Fern","tag":"shade"}',
    before: [],
    wanted: { ...fern, id: '9007199254740993' },
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
  return { title, body: JSON.stringify({ ...row, id }), before: [], wanted: row, mayFail: true }
}
