/** Array literals (PostgreSQL manual, "Array Input and Output Syntax"): one parameter for a whole column. */

const special = /["\\]/
const specials = /["\\]/g

/** Writes an array of elements that are written already: plain where their text needs no quotes, as numbers and uuids. */
export const toArray = (elements: readonly string[]): string => `{${elements.join(',')}}`

/** Writes a text as an element. */
export const quoteElement = (text: string): string =>
  special.test(text) ? `"${text.replace(specials, '\\$&')}"` : `"${text}"`

/** The element that becomes null. */
export const nullElement = 'NULL'
