/** The process that makes an access token and shows it once, with its entry for AUTH_TOKENS: `create-token.ts NAME`. */
import { reportStartupFault, StartupFault } from '../startup-fault.ts'
import { createToken } from '../tokens.ts'

const usage = 'usage: token NAME, which does not begin with "-"'

try {
  const [name, ...rest] = process.argv.slice(2)
  if (name === undefined || name.startsWith('-') || rest.length > 0) throw new StartupFault([usage])
  const { secret, entry } = createToken(name)
  process.stdout.write(`token  ${secret}\nentry  ${entry}\n`)
} catch (error) {
  reportStartupFault(error)
}
