/** docs/configuration.md: the environment variables. */
import { crossRules } from '../../src/config/cross-rules.ts'
import { code, notice, table } from './markdown.ts'
import {
  composeVariables,
  isPassedOn,
  plainVariables,
  secretVariables,
  tracingVariables,
  type Variable
} from './variables.ts'

/** Makes code of the names of variables in a text. */
const markNames = (text: string) => text.replace(/[A-Z]+(?:_[A-Z]+)+/g, '`$&`')

const tabulate = (variables: Variable[]) =>
  table(
    ['variable', 'default', 'what it is for', 'value'],
    variables.map(({ name, default: fallback, purpose, rule = 'any text' }) => [
      code(name),
      fallback === 'required' ? fallback : code(fallback) || 'empty',
      purpose,
      rule.replaceAll('<', '&lt;').replaceAll('|', '\\|')
    ])
  )

const list = (names: string[]) => names.map(code).join(', ')

export function writeConfigurationPage(): string {
  const variables = [...secretVariables, ...plainVariables]
  return `# Configuration

${notice}

The service reads environment variables, and checks them at start-up. A process with a missing or bad value exits with
code 1, and names each on a line of its own. An empty variable counts as absent. Sizes (\`_BYTES\`) are in bytes, times
(\`_MS\`) in milliseconds. [.env.example](../.env.example) has every variable with its default.

## Secrets

${tabulate(secretVariables)}

A secret can come from a file instead, which these variables name:
${list(secretVariables.map(({ name }) => `${name}_FILE`))}.
A secret and its file must not both be set. [operations.md](operations.md#tokens) tells how tokens change without a restart.

## Settings

${tabulate(plainVariables)}

Some settings depend on others:

${crossRules.map(({ name, rule }) => `- ${code(name)} must be ${markNames(rule)}.`).join('\n')}

[operations.md](operations.md) tells how to choose them: [sizing](operations.md#sizing), [leaving](operations.md#leaving),
[overload](operations.md#overload).

## Tracing

${tabulate(tracingVariables)}

\`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT\` and \`OTEL_TRACES_EXPORTER=otlp\` turn tracing on, too.
\`OTEL_SDK_DISABLED=true\` and \`OTEL_TRACES_EXPORTER=none\` turn it off. \`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL\` has
precedence over \`OTEL_EXPORTER_OTLP_PROTOCOL\`. [operations.md](operations.md#tracing) has more.

## Docker Compose

\`docker compose\` reads \`.env\`, and passes on every variable but these, which it sets itself:
${list(variables.filter((variable) => !isPassedOn(variable)).map(({ name }) => name))}.
\`SHUTDOWN_TIMEOUT_MS\` must be less than the \`stop_grace_period\` of \`api\` in
[docker-compose.yml](../docker-compose.yml), and \`WRITE_DEADLINE_MS\` less than the \`timeout server\` in
[ops/haproxy/haproxy.cfg](../ops/haproxy/haproxy.cfg). The balancer is published on 127.0.0.1, at \`PORT\`.

\`docker compose\` has variables of its own:

${table(
  ['variable', 'default'],
  composeVariables.map((variable) => [code(variable.name), code(variable.default)])
)}
`
}
