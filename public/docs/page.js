// Swagger UI with the document of this service, in the reader's colours.
const dark = matchMedia('(prefers-color-scheme: dark)')
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', paint)
paint()

/** Reads JSON; an integer that JavaScript would round becomes the text of its digits. */
const parseExactly = (text) =>
  JSON.parse(text, (_, value, context) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && context ? context.source : value
  )

/** Swagger UI shows bounds as numbers: those that it would round are written into the description. */
function describeBounds(schema) {
  const { minimum, maximum } = schema
  if (Number.isSafeInteger(minimum) && Number.isSafeInteger(maximum)) return
  delete schema.minimum
  delete schema.maximum
  if (typeof minimum === 'string') schema.description += `, from ${minimum} to ${maximum}`
}

const directory = new URL('.', location.href)
const spec = parseExactly(await (await fetch(new URL('openapi.json', directory))).text())
describeBounds(spec.components.schemas.NewPlant.properties.id)
// As the page was reached: a balancer may have put a path in front of all of it.
for (const server of spec.servers) server.url = new URL(`.${server.url}`, directory).href.replace(/\/$/, '')

globalThis.SwaggerUIBundle({
  dom_id: '#reference',
  spec,
  validatorUrl: null,
  docExpansion: 'full',
  defaultModelsExpandDepth: 3,
  defaultModelExpandDepth: 3,
  tryItOutEnabled: true,
  displayRequestDuration: true
})
