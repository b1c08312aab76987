/** The table, and from it the schema of a request's body (https://orm.drizzle.team/docs/typebox). */
import { Type } from '@sinclair/typebox'
import { bigint, pgTable, text } from 'drizzle-orm/pg-core'
import { createInsertSchema } from 'drizzle-typebox'

export const plants = pgTable('plants', {
  id: bigint({ mode: 'number' }).primaryKey(),
  name: text().notNull(),
  tag: text()
})

// The column may be null, the field may not.
export const NewPlant = createInsertSchema(plants, { tag: Type.Optional(Type.String()) })
export const Plant = Type.Object({ name: Type.String(), tag: Type.Optional(Type.String()) })
export const ErrorBody = Type.Object({ error: Type.Integer(), message: Type.String() })
