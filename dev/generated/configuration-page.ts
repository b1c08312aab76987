/** docs/configuration.md: the environment variables. */
import { crossRules } from '../../src/config/config.ts'
import { urlParameters } from '../../src/database/url.ts'
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

const evident = /^(an integer|an IP address|on or off|$)/

/** Returns what a variable is for, and its rule unless that is evident. */
const describe = ({ purpose, rule = '' }: Variable) =>
  evident.test(rule) ? purpose : `${purpose} Value: ${rule.replaceAll('<', '&lt;')}.`

const tabulate = (variables: Variable[]) =>
  table(
    ['variable', 'default', 'what it is for'],
    variables.map((variable) => [
      code(variable.name),
      variable.default === 'required' ? variable.default : code(variable.default) || 'empty',
      describe(variable)
    ])
  )

const list = (names: string[]) => names.map(code).join(', ')

const happensAnyway = 'This happens anyway.'
const instead = 'Instead of that before the path.'

/** What each parameter of a database URL is for. */
const purposes: Record<keyof typeof urlParameters, string> = {
  sslmode:
    'The default is `disable`, no TLS; with one of the next three it is `verify-full`. `require` encrypts, `verify-ca` and `require` with `sslrootcert` also check who has signed the certificate, `verify-full` its host name, too.',
  sslrootcert:
    'The authorities in PEM; `system` means those of the operating system, and needs `verify-full`. The default are those of Node.',
  sslcert: "The service's own certificate in PEM; needs `sslkey`.",
  sslkey: 'Its key in PEM, without a passphrase.',
  channel_binding:
    '`require` refuses every session that was not authenticated by SCRAM-SHA-256-PLUS over TLS. The default is `disable`.',
  host: instead,
  port: instead,
  user: instead,
  password: instead,
  application_name: 'What `pg_stat_activity` shows. The default is `plant-store`.',
  connect_timeout:
    'Seconds for each host to connect, if less than what `WRITE_DEADLINE_MS` leaves. 0 adds no limit.',
  options: 'Options for the server, such as `-c%20search_path%3Dplants`. A pooler may refuse them.',
  target_session_attrs:
    '`read-write` uses only a server that accepts writes: always so with several hosts. The default is `any`.',
  load_balance_hosts: happensAnyway,
  client_encoding: happensAnyway,
  gssencmode: happensAnyway,
  keepalives: happensAnyway,
  uselibpqcompat: happensAnyway
}

export function writeConfigurationPage(): string {
  const variables = [...secretVariables, ...plainVariables]
  return `# Configuration

${notice}

At start-up the service exits with code 1 after a line for each missing or bad environment variable.
An empty variable counts as absent. \`_BYTES\` are bytes, \`_MS\` milliseconds. "Then 503": creates beyond the limit get that
failure. [.env.example](../.env.example) has the ranges.

## Secrets

${tabulate(secretVariables)}

A secret can come from a file instead:
${list(secretVariables.map(({ name }) => `${name}_FILE`))}.
Set only one of the two. [Tokens](running.md#tokens) and [the database's URL](running.md#database-credentials) can
change without a restart, [several hosts](decisions/hosts-in-database-url.md) replace a database proxy.

## Parameters of a database URL

As in the PostgreSQL manual (libpq, "Parameter Key Words"); any other is a fault. Without \`sslmode\`, connections are in
clear text, and the start warns of that for a host beyond this machine. \`@ # & %\` are \`%40 %23 %26 %25\`, and outside of
parameters \`/ ?\` are \`%2F %3F\`. What the URL omits comes from \`PGUSER\`, \`PGPASSWORD\` or \`~/.pgpass\`, \`PGDATABASE\` and
\`PGOPTIONS\`; \`PGSSLMODE\` and the like are a fault.

${table(
  ['parameter', 'value', 'what it is for'],
  Object.entries(urlParameters).map(([name, [, rule]]) => [
    code(name),
    rule,
    purposes[name as keyof typeof purposes]
  ])
)}

A Unix socket: \`postgres://user:password@/database?host=/var/run/postgresql\`. Of several hosts, only one that accepts
writes is used. The start tries the statements and asks for what would lose plants: PostgreSQL 15 or later, UTF8,
\`synchronous_commit\`, \`array_nulls\`, rights, columns, rules, a table that is logged, and a pooler that keeps prepared
statements. It says in one line what to change.

## Settings

${tabulate(plainVariables)}

${crossRules.map(({ name, sum }) => `- ${code(name)} must be at least ${markNames(sum)}.`).join('\n')}

How to choose them: [sizing](running.md#sizing), [shutdown](running.md#shutdown), [overload](monitoring.md#overload).

## Tracing

${tabulate(tracingVariables)}

\`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT\` and \`OTEL_TRACES_EXPORTER=otlp\` turn tracing on, too.
\`OTEL_SDK_DISABLED=true\` and \`OTEL_TRACES_EXPORTER=none\` turn it off. \`OTEL_EXPORTER_OTLP_PROTOCOL\` and
\`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL\` can only be \`http/protobuf\`. [The spans](monitoring.md#tracing).

## Docker Compose

\`docker compose\` passes on the variables of the tables above, without \`_FILE\`, except these, which it sets itself:
${list(variables.filter((variable) => !isPassedOn(variable)).map(({ name }) => name))}.
Docker kills a replica 10 s after \`SHUTDOWN_TIMEOUT_MS\`. \`WRITE_DEADLINE_MS\` must be less than \`timeout server\` in
[haproxy.cfg](../ops/haproxy/haproxy.cfg), and \`SERVER_MAXCONN\`, the requests that the balancer sends to one replica at
a time, less than half of \`MAX_CONNECTIONS\`, and than 4,000 divided by \`REPLICAS\`. Further ones wait in the balancer, which takes 4,000 connections in all.
\`PORT\` is the balancer's. It also reads, with defaults in .env.example,
${list(composeVariables.map(({ name }) => name))}.
`
}
