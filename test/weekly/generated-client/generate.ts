/** generated/: what public generators make of the document, each with the options that docs/clients.md names. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createClient } from '@hey-api/openapi-ts'
import openapiTS, { astToString } from 'openapi-typescript'
import { generate } from 'orval'
import ts from 'typescript'

const directory = `${import.meta.dirname}/generated`
const document = new URL('../../../public/openapi.json', import.meta.url)
const input = fileURLToPath(document)
mkdirSync(directory, { recursive: true })

const types = await openapiTS(document, {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined
})
writeFileSync(`${directory}/plants.ts`, astToString(types))

for (const client of ['fetch', 'zod'] as const) {
  const baseUrl = { runtime: 'process.env.PLANTS_BASE' }
  const target = `${directory}/orval/${client}.ts`
  await generate({ input, output: { client, target, baseUrl, override: { useBigInt: true } } })
}

await createClient({
  input,
  // As Node.js runs TypeScript.
  output: { path: `${directory}/hey-api`, module: { extension: '.ts' } },
  plugins: [
    '@hey-api/client-fetch',
    '@hey-api/transformers',
    'zod',
    { name: '@hey-api/sdk', validator: 'zod' }
  ]
})
