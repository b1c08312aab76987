/** The lines that the tests' services write have the fields that docs/monitoring.md describes, and no others. */
import { errorFields, logFields } from '../../src/log-fields.ts'

type Fields = Record<string, { type: string }>

const types: Record<string, (value: unknown) => boolean> = {
  integer: Number.isSafeInteger,
  number: Number.isFinite,
  text: (value) => typeof value === 'string',
  texts: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
  error: (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns each field of a line, and of the errors in it, that is not described, or has another type. */
export function findUndescribed(line: object, fields: Fields = logFields): string[] {
  return Object.entries(line).flatMap(([name, value]) => {
    const type = Object.hasOwn(fields, name) ? fields[name]?.type : undefined
    if (type === undefined || !types[type]?.(value)) return [`${name}: ${JSON.stringify(value)}`]
    return type === 'error' ? findUndescribed(value, errorFields) : []
  })
}

/** Makes the test that runs fail if a field of a line is not described. */
export function checkLine(text: string) {
  const undescribed = findUndescribed(JSON.parse(text))
  // The service must not notice.
  if (undescribed.length > 0)
    setImmediate(() => {
      throw new Error(`src/log-fields.ts does not describe ${undescribed}`)
    })
}
