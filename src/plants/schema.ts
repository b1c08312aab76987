/** The interface's types, and how a request's body is checked against them. */
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyServerOptions } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures.ts'

/** The bounds of an id. */
export const int64 = { minimum: -(2n ** 63n), maximum: 2n ** 63n - 1n }

/**
 * Unicode text that PostgreSQL can store unchanged: `text` has no U+0000, UTF-8 no lone surrogates. Not a `pattern`: on a
 * text of more than 30 MB a regular expression overflows V8's stack, and most generated clients compile it wrongly.
 */
const Text = (description: string) =>
  Type.String({
    description,
    storable: true,
    rule: 'a string without U+0000 and without lone surrogates'
  })

/** The fields of a plant. `rule` completes the sentence "the field must be …", and the description in the document. */
const fields = {
  name: Text('The name of the plant'),
  tag: Type.Optional(Text('Tag that specifies the type of the plant'))
}

/** What a client gets back. */
export const Plant = Type.Object(fields, {
  title: 'Plant',
  examples: [{ name: 'Monstera', tag: 'tropical' }]
})
export type Plant = Static<typeof Plant>

/** What a client sends. */
export const NewPlant = Type.Object(
  {
    id: Type.Unsafe<bigint>({
      int64: true,
      description: 'Identification number of the plant',
      rule: `an integer from ${int64.minimum} to ${int64.maximum}`
    }),
    ...fields
  },
  { title: 'NewPlant', rule: 'a JSON object', examples: [{ id: 1, name: 'Monstera', tag: 'tropical' }] }
)
export type NewPlant = Static<typeof NewPlant>

/** What a client gets back when its request fails. */
export const ErrorBody = Type.Object(
  {
    error: Type.Integer({ format: 'int32', description: 'Numeric error value' }),
    message: Type.String({ description: 'Error message text' })
  },
  { title: 'Error' }
)
export type ErrorBody = Static<typeof ErrorBody>

/** How the server validates: it coerces nothing and drops unknown properties. `int64` is exact, unlike a JSON number. */
export const ajv: FastifyServerOptions['ajv'] = {
  customOptions: {
    coerceTypes: false,
    // A plant that waits then holds nothing that will not be stored.
    removeAdditional: 'all',
    useDefaults: false,
    // The schemas are all our own, and checking them would take a tenth of the start-up time.
    validateSchema: false,
    verbose: true,
    keywords: ['rule']
  },
  onCreate: (instance) => {
    instance.addKeyword({
      keyword: 'storable',
      type: 'string',
      validate: (_: boolean, text: string) => text.isWellFormed() && !text.includes('\0')
    })
    instance.addKeyword({
      keyword: 'int64',
      validate: (_: boolean, value: unknown) =>
        typeof value === 'bigint' && value >= int64.minimum && value <= int64.maximum
    })
  }
}

/** Turns a value that breaks a schema into a failure that names the field and its rule. */
export default fp(
  async (app) => {
    app.setSchemaErrorFormatter((faults) => {
      // Fastify keeps the faults with the failure, and Ajv keeps those of the last body. Neither may keep the body alive.
      for (const fault of faults) Reflect.deleteProperty(fault, 'data')
      const [fault] = faults
      const { keyword, instancePath, params, parentSchema } = fault as NonNullable<typeof fault> & {
        parentSchema: { rule: string }
      }
      if (keyword === 'required') {
        return new Failure('InvalidPlant', { message: `${params.missingProperty} is required` })
      }
      const field = instancePath.slice(1) || 'the body'
      return new Failure('InvalidPlant', { message: `${field} must be ${parentSchema.rule}` })
    })
  },
  { name: 'schema' }
)
