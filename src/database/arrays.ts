/** Array literals (PostgreSQL manual, "Array Input and Output Syntax"): one parameter for a whole column. */

const special = /["\\]/g

/** Writes an array of values whose text needs no quotes, such as numbers and uuids. */
export function plainArray(values: readonly (bigint | string)[]): string {
  return `{${values.join(',')}}`
}

/** Writes an array of texts; undefined becomes null. */
export function textArray(values: readonly (string | undefined)[]): string {
  return `{${values.map((value) => (value === undefined ? 'NULL' : `"${value.replace(special, '\\$&')}"`)).join(',')}}`
}
