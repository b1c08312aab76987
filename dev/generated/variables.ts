/** The environment variables, as the settings declare them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Settings, secrets } from '../../src/config/settings.ts'

export interface Variable {
  name: string
  default: string
  /** Completes the sentence "NAME must be …"; absent if the service checks nothing. */
  rule?: string
  /** What it is for, in Markdown. */
  purpose: string
}

/** What a setting or a secret declares about itself. */
interface Declaration {
  default: unknown
  description: string
  purpose: string
}

function toVariable([name, declared]: [string, Declaration]): Variable {
  return { name, default: `${declared.default}`, rule: declared.description, purpose: declared.purpose }
}

export const secretVariables = Object.entries(secrets).map(toVariable)

const settings = Object.entries(Settings.properties) as unknown as [string, Declaration][]

export const plainVariables = settings.map(toVariable)

/** Those of OpenTelemetry that the service or its documents name; the SDK reads more. */
export const tracingVariables: Variable[] = [
  {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    default: '',
    purpose: 'Collector, such as `http://collector:4318`. Turns tracing on.'
  },
  {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    default: '',
    purpose: 'Header fields for the collector, such as `authorization=Bearer …`.'
  },
  { name: 'OTEL_SERVICE_NAME', default: 'plant-store', purpose: 'Name of the service.' },
  { name: 'OTEL_RESOURCE_ATTRIBUTES', default: '', purpose: 'Further attributes of the service.' },
  {
    name: 'OTEL_TRACES_SAMPLER',
    default: 'parentbased_always_on',
    purpose: 'Which requests are traced.'
  },
  {
    name: 'OTEL_TRACES_SAMPLER_ARG',
    default: '',
    purpose: 'Share of requests for `parentbased_traceidratio`.'
  }
]

const file = readFileSync(join(import.meta.dirname, '../../docker-compose.yml'), 'utf8')
const compose = file.replaceAll(/\$\{COMPOSE_PROJECT_NAME\}/g, 'plant-store') // as its name says

/** Returns whether docker compose passes a variable on from `.env`. */
export const isPassedOn = ({ name }: Variable) => compose.includes(`\${${name}:-`)

// A default can be another variable's, with one of its own.
const defaults = new Map(
  [...compose.matchAll(/\$\{([A-Z_]+):-(?:\$\{[A-Z_]+:-)?([^}]+)\}/g)].map(([, name = '', value = '']) => [
    name,
    value
  ])
)

/** What docker compose itself reads: published ports and images, with the defaults of its file. */
export const composeVariables = [...defaults]
  .map(([name, value]) => ({ name, default: value }))
  .filter(({ name }) => plainVariables.every((variable) => variable.name !== name))
