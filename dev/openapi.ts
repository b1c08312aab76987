/** `npm run openapi`: writes docs/openapi.json, the document of a service without BASE_PATH. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDocument } from '../src/openapi/document.ts'

writeFileSync(join(import.meta.dirname, '../docs/openapi.json'), writeDocument(''))
