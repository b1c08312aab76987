/** Starts one of the servers that are no part of the product: `node main.ts bare`, or `documented`. */
import { readConfig } from '../../src/config.ts'
import { buildBare } from './bare.ts'
import { buildDocumented } from './documented.ts'
import { openGroupCommit, openInserts } from './repositories.ts'

const config = readConfig(process.env)
const app =
  process.argv[2] === 'bare' ? buildBare(openGroupCommit(config)) : await buildDocumented(openInserts(config))
await app.listen({ host: config.HOST, port: config.PORT })
