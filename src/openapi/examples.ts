/** The failures as the OpenAPI document tells them: what each number asks of a client, and an example of each. */
import { catalogue, type FailureName } from '../failures/failures.ts'
import { NewPlant } from '../plants/schema.ts'

type ErrorNumber = (typeof catalogue)[FailureName]['error']

/** What a client should do. */
const advice: Record<ErrorNumber, string> = {
  400: 'mend the request',
  401: 'send a good token; `WWW-Authenticate` says what is wrong with this one',
  404: 'mend the path',
  405: 'use `POST`; `Allow` names the methods that the path has',
  408: 'send it again',
  409: 'choose another id, or leave it',
  413: 'send a smaller body',
  415: 'send `application/json` in UTF-8, not compressed',
  417: 'leave `Expect` out',
  422: 'mend the plant, or use another key',
  429: 'send it again after `Retry-After` seconds, or send fewer',
  431: 'send fewer or shorter header fields',
  500: 'report it; with an Idempotency-Key it may be sent again',
  501: 'use `chunked`, or a `Content-Length`',
  503: 'send the same request again after `Retry-After` seconds; the message says whether the plant may be stored',
  505: 'use HTTP/1.1 or HTTP/1.0'
}

/** The failures of other paths than that of the operation. */
const elsewhere = new Set<FailureName>(['NotFound', 'NotReady'])

/** InvalidPlant always names the field and its rule. */
const faults = {
  InvalidPlant: `id must be ${NewPlant.properties.id.rule}`,
  MissingField: 'name is required'
}

const entries = Object.entries(catalogue) as [FailureName, { error: ErrorNumber; message: string }][]

function example(error: ErrorNumber, message: string) {
  return {
    summary: `${error}: ${message}`,
    description: `What to do: ${advice[error]}.`,
    value: { error, message }
  }
}

/** A named example of every failure that the operation's path answers with. */
export const failureExamples = Object.fromEntries(
  entries
    .filter(([name]) => !elsewhere.has(name))
    .flatMap(([name, { error, message }]) =>
      name === 'InvalidPlant'
        ? Object.entries(faults).map(([fault, text]) => [fault, example(error, text)])
        : [[name, example(error, message)]]
    )
)

/** The numbers of the failures, with that of unknown paths, and what to do, as a table of Markdown. */
export function tabulateFailures(): string {
  const rows = Object.entries(advice).map(([error, what]) => {
    const messages = entries
      .filter(([name, entry]) => `${entry.error}` === error && name !== 'NotReady')
      .map(([, { message }]) => message)
    return `| ${error} | ${messages.join('; ')} | ${what} |`
  })
  return ['| error | messages | what to do |', '|---|---|---|', ...rows].join('\n')
}
