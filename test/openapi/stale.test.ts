/** The OpenAPI document in docs/: it is the one that the code makes now. Needs no server. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { writeDocument } from '../../src/openapi/document.ts'

const file = join(import.meta.dirname, '../../docs/openapi.json')

t.test('docs/openapi.json is the document as the code makes it: else run `npm run openapi`', async (t) => {
  t.equal(readFileSync(file, 'utf8'), writeDocument(''))
})
