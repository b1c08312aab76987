/** generated/plants.ts: what openapi-typescript makes of the document, with the option that docs/clients.md names. */
import { mkdirSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { buildApp } from '../../../src/app.ts'
import { readConfig } from '../../../src/config.ts'
import { createLogger } from '../../../src/log.ts'

const directory = `${import.meta.dirname}/generated`
mkdirSync(directory, { recursive: true })
const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1/none', AUTH_TOKENS: 'nobody:0123456789abcdef' }
const app = await buildApp(readConfig({ ...nowhere, METRICS_PORT: 'off' }), createLogger('silent'))
await app.ready()
const types = await openapiTS(JSON.stringify(app.swagger()), {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined
})
writeFileSync(`${directory}/plants.ts`, astToString(types))
await app.close()
