/** generated/plants.ts: what openapi-typescript makes of the document, with the option that docs/clients.md names. */
import { mkdirSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { buildApp } from '../../../src/app.ts'
import { readConfig } from '../../../src/config.ts'
import { createLogger } from '../../../src/log.ts'
import { createMemoryStore } from '../../support/memory-store.ts'

const directory = `${import.meta.dirname}/generated`
mkdirSync(directory, { recursive: true })
const config = readConfig(
  { AUTH_TOKENS: 'nobody:0123456789abcdef', METRICS_PORT: '0' },
  { hasStore: true }
)
const app = await buildApp(config, { logger: createLogger('silent'), store: createMemoryStore() })
await app.ready()
const types = await openapiTS(JSON.stringify(app.swagger()), {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined
})
writeFileSync(`${directory}/plants.ts`, astToString(types))
await app.close()
