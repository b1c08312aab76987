/** The process that makes an access token and shows it once, with its entry for AUTH_TOKENS: `create-token.ts NAME`. */
import { createToken } from '../auth/tokens.ts'
import { reportStartupFault, StartupFault } from '../failures/failure.ts'

try {
  const [name, ...rest] = process.argv.slice(2)
  if (name === undefined || rest.length > 0) throw new StartupFault(['usage: token NAME'])
  const { secret, entry } = createToken(name)
  process.stdout.write(`token  ${secret}\nentry  ${entry}\n`)
} catch (error) {
  reportStartupFault(error)
}
