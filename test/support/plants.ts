/** Plants as loads draw them and judges compare them. A field that a plant gains gets its line here. */

/** How the n-th value of a field is made; for 0, one that is often taken for none. */
const samples = {
  name: (n: number) => (n === 0 ? '' : `name ${n}`),
  tag: (n: number) => (n === 0 ? '' : `tag ${n}`)
}

export type Field = keyof typeof samples

/** What a client gets back. */
export type Plant = { name: string; tag?: string }

/** The fields that a client gets back. */
export const fields = Object.keys(samples) as Field[]

/** The fields that may be absent. */
export const optionalFields: Field[] = fields.filter((field) => field !== 'name')

/** Returns the plant alone, without what else an object has. */
export const toPlant = (from: Plant): Plant =>
  Object.fromEntries(
    fields.flatMap((field) => (from[field] === undefined ? [] : [[field, from[field]]]))
  ) as Plant

export const isSamePlant = (one: Plant, other: Plant): boolean =>
  fields.every((field) => one[field] === other[field])

/** Returns the n-th value of a field. */
export const sampleOf = (field: Field, n: number) => samples[field](n)
