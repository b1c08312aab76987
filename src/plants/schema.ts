/** The types of the interface, and the check of a request's body against them. */
import {
  Kind,
  type Static,
  type TObject,
  type TUnsafe,
  Type,
  TypeRegistry
} from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import fp from 'fastify-plugin'
import { Failure } from '../failures.ts'

const [lowest, highest] = [-(2n ** 63n), 2n ** 63n - 1n]

/**
 * The types of fields. Each has the end of the message "the field must be …", and a function that
 * says which values are good. The OpenAPI document has the rule only in words, because its readers
 * round the bounds of an int64, and read patterns in different dialects.
 */
export const fieldTypes = {
  /** An integer that is exact, unlike a number of JavaScript. */
  Int64: [
    `an integer from ${lowest} to ${highest}`,
    (value: unknown) => typeof value === 'bigint' && value >= lowest && value <= highest
  ],
  /**
   * Unicode text that PostgreSQL can store unchanged: `text` has no U+0000, UTF-8 no lone
   * surrogates.
   */
  Text: [
    'a string without U+0000 and without lone surrogates',
    (value: unknown) => typeof value === 'string' && value.isWellFormed() && !value.includes('\0')
  ]
} as const
for (const [name, [, isGood]] of Object.entries(fieldTypes))
  TypeRegistry.Set(name, (_, value) => isGood(value))

/** A field's schema. The type checker demands the parts that messages and the document need. */
type Field<T> = TUnsafe<T> & { [Kind]: keyof typeof fieldTypes; description: string }

const field = <T>(
  kind: keyof typeof fieldTypes,
  about: string,
  type: { type: string; format?: string }
) =>
  Type.Unsafe<T>({
    [Kind]: kind,
    description: `${about}: ${fieldTypes[kind][0]}`,
    ...type
  }) as Field<T>
const Int64 = (about: string) => field<bigint>('Int64', about, { type: 'integer', format: 'int64' })
const Text = (about: string) => field<string>('Text', about, { type: 'string' })

const plantFields = {
  name: Text('The name of the plant'),
  tag: Type.Optional(Text('Tag that specifies the type of the plant'))
} satisfies Record<string, Field<unknown>>

/** A plant, as a client gets it. */
export const Plant = Type.Object(plantFields, {
  title: 'Plant',
  description: 'The plant, which is stored',
  examples: [{ name: 'Monstera', tag: 'tropical' }]
})
export type Plant = Static<typeof Plant>

/** A plant with its id, as a client sends it. */
export const NewPlant = Type.Object(
  { id: Int64('Identification number of the plant'), ...plantFields },
  { title: 'NewPlant', examples: [{ id: 1, name: 'Monstera', tag: 'tropical' }] }
)
export type NewPlant = Static<typeof NewPlant>

/** The body of a response to a request that has failed. */
export const ErrorBody = Type.Object(
  {
    error: Type.Integer({ format: 'int32', description: 'Numeric error value' }),
    message: Type.String({ description: 'Error message text' })
  },
  { title: 'Error', description: 'Why the request failed' }
)
export type ErrorBody = Static<typeof ErrorBody>

/** Checks bodies with TypeBox instead of Ajv, because TypeBox never coerces a value. */
export default fp(async (app) => {
  app.setValidatorCompiler(({ schema }) => {
    const checker = TypeCompiler.Compile(schema as typeof NewPlant)
    return (body: unknown) =>
      checker.Check(body)
        ? { value: body }
        : { error: toInvalidPlant(checker.Errors(body).First() as ValueError) }
  })
})

/**
 * Removes the members of a body that its schema does not have. TypeBox's Value.Clean is not used:
 * it keeps a member whose name is also one of Object.prototype, such as `constructor`.
 */
export function dropUnknown({ properties }: TObject, body: object): void {
  for (const name of Object.keys(body))
    if (!Object.hasOwn(properties, name)) Reflect.deleteProperty(body, name)
}

/**
 * Returns the Failure for the first bad value of a body. Its message names the field and its rule.
 */
function toInvalidPlant({ type, path, schema }: ValueError): Failure {
  const field = path.slice(1)
  const rule = fieldTypes[schema[Kind] as keyof typeof fieldTypes]?.[0] ?? 'a JSON object'
  const isMissing = type === ValueErrorType.ObjectRequiredProperty
  return new Failure('InvalidPlant', {
    message: isMissing ? `${field} is required` : `${field || 'the body'} must be ${rule}`
  })
}
