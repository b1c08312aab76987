/** The failures of an operation as the OpenAPI document tells them: an example and a table's row of each. */
import { catalogue, type Entry, type FailureName } from '../failures/catalogue.ts'
import { NewPlant } from '../plants/schema.ts'

const entries = Object.entries(catalogue) as [FailureName, Entry][]

/** InvalidPlant always names the field and its rule. */
const invalidPlants = {
  InvalidPlant: `id must be ${NewPlant.properties.id.rule}`,
  MissingField: 'name is required'
}

/** Gives what an operation can meet: the failures that it declares, and those that any request can meet. */
export function failuresOf(declared: readonly FailureName[]): [FailureName, Entry][] {
  return entries.filter(([name, { scope }]) => declared.includes(name) || scope === 'any request')
}

function example({ error, advice }: Entry, message: string) {
  return { summary: `${error}: ${message}`, description: advice, value: { error, message } }
}

/** Gives the failures' examples by name. */
export function exemplify(failures: [FailureName, Entry][]) {
  const examples = failures.flatMap(([name, entry]) => {
    const messages = name === 'InvalidPlant' ? invalidPlants : { [name]: entry.message }
    return Object.entries(messages).map(([key, message]) => [key, example(entry, message)])
  })
  return Object.fromEntries(examples)
}

/** Gives the failures as a table of Markdown. */
export function tabulate(failures: [FailureName, Entry][]): string {
  const rows = failures.map(([, { error, message, advice }]) => `| ${error} | ${message} | ${advice} |`)
  return ['| error | message | what to do |', '|---|---|---|', ...rows].join('\n')
}

/** Gives the numbers of the failures that have a header field, such as "429 and 503". */
export function numbersWith(field: string, failures: [FailureName, Entry][]): string {
  const have = failures.filter(
    ([, { headers = {}, fields = [] }]) => field in headers || fields.includes(field)
  )
  return [...new Set(have.map(([, { error }]) => error))].join(' and ')
}
