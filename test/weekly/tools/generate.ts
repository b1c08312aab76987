/** generated/plants.ts: what openapi-typescript makes of the document, with the option that docs/clients.md names. */
import { mkdirSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'

const directory = `${import.meta.dirname}/generated`
mkdirSync(directory, { recursive: true })
const types = await openapiTS(new URL('../../../public/openapi.json', import.meta.url), {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined
})
writeFileSync(`${directory}/plants.ts`, astToString(types))
