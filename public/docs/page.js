// Swagger UI with the document of this service, in the reader's colours.
const dark = matchMedia('(prefers-color-scheme: dark)')
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', paint)
paint()

const directory = new URL('.', location.href)
const spec = await (await fetch(new URL('openapi.json', directory))).json()
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
