/** Plants as loads draw them, byte cases try them and judges compare them. A field that a plant gains gets its line here. */

/** What the tests know of a field. Values are as JSON writes them. */
interface About<T extends string | number> {
  /** Makes its n-th value; for 0, one that is often taken for none. */
  sample(n: number): T
  taken: string[]
  refused: string[]
  /** What completes "the field must be …". */
  rule: string
}

const text = (field: string): About<string> => ({
  sample: (n) => (n === 0 ? '' : `${field} ${n}`),
  taken: ['""', '"t"', '"\\ud83c\\udf35\\n\\/"', '"ß🌵\u2028"'],
  refused: ['null', '5', 'true', '[]', '{}', '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"'],
  rule: 'a string without U+0000 and without lone surrogates'
})

export const about = {
  name: text('name'),
  tag: text('tag')
}

export type Field = keyof typeof about

type Value<F extends Field> = ReturnType<(typeof about)[F]['sample']>

/** What a client gets back. */
export type Plant = { name: Value<'name'> } & { [F in Exclude<Field, 'name'>]?: Value<F> }

/** The fields that a client gets back. */
export const fields = Object.keys(about) as Field[]

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
export const sampleOf = (field: Field, n: number) => about[field].sample(n)
