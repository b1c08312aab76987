/** generated/plants.ts: the types of the document, with int64 as BigInt, which JavaScript's numbers round. */
import { mkdirSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'

const directory = `${import.meta.dirname}/generated`
const types = await openapiTS(new URL('../../public/openapi.json', import.meta.url), {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined
})
mkdirSync(directory, { recursive: true })
writeFileSync(`${directory}/plants.ts`, astToString(types))
