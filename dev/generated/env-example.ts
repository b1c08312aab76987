/** .env.example: every variable with its default, for a copy named .env. */
import { secrets } from '../../src/config/settings.ts'
import {
  composeVariables,
  plainVariables,
  secretVariables,
  tracingVariables,
  type Variable
} from './variables.ts'

const width = 120

/** Returns a text as lines of comment. */
function comment(text: string): string {
  const pattern = new RegExp(`(\\S.{0,${width - 3}})(?:\\s+|$)`, 'g')
  return text.replaceAll('`', '').replace(pattern, '# $1\n').trimEnd()
}

const describe = ({ purpose, rule }: Variable) => comment(rule ? `${purpose} Value: ${rule}.` : purpose)

function writeSecret(variable: Variable): string {
  const { name } = variable
  const { example } = secrets[name as keyof typeof secrets]
  return `${describe(variable)}
#${name}=${example}
# The file that holds it, instead.
#${name}_FILE=`
}

const write = (variable: Variable) => `${describe(variable)}\n#${variable.name}=${variable.default}`

export function writeEnvExample(): string {
  return `# Settings for \`npm run dev\`, \`npm start\`, \`npm run migrate\` and \`docker compose\`: cp .env.example .env
# Made by \`npm run generate\`; docs/configuration.md has more. A commented setting shows its default.
# \`npm run dev\` makes a token and starts a database of its own where these are not set, and listens on 127.0.0.1.
# \`docker compose\` makes its own token and passwords.

${secretVariables.map(writeSecret).join('\n')}

${plainVariables.map(write).join('\n')}

${tracingVariables.map(write).join('\n')}

# docker compose alone: images, ports, replicas, the requests that the balancer sends to one of them at a time, and
# where the profile backup writes (docs/compose.md, "Backup").
# ops/get-image, ops/rolling-update and ops/scale write PLANT_STORE_IMAGE, PLANT_STORE_PREVIOUS_IMAGE and REPLICAS.
${composeVariables.map((variable) => `#${variable.name}=${variable.default}`).join('\n')}
`
}
