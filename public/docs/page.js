// Swagger UI with the document of this service, in the reader's colours; for a first visitor a token, an id and a key of
// their own, and what the last response means.
const dark = matchMedia('(prefers-color-scheme: dark)')
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', paint)
paint()

const directory = new URL('.', location.href)
const spec = await (await fetch(new URL('openapi.json', directory))).json()
// As the page was reached: a balancer may have put a path in front of all of it.
for (const server of spec.servers) server.url = new URL(`.${server.url}`, directory).href.replace(/\/$/, '')

const idempotencyKey = 'Idempotency-Key'
/** Exact in every client, and hardly anybody else's. */
const freshId = () => String(crypto.getRandomValues(new BigUint64Array(1))[0] >> 12n)
// Not randomUUID, which browsers have only where the page comes over TLS or from this machine.
const freshKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/** What the page says of each failure, by its name. */
const failures = {}
const isWide = matchMedia('(min-width: 641px)').matches

for (const operation of Object.values(spec.paths).flatMap((item) => Object.values(item))) {
  for (const parameter of operation.parameters)
    if (parameter.name === idempotencyKey) parameter.example = freshKey()
  const contents = [operation.requestBody, ...Object.values(operation.responses)].map(
    (part) => part?.content['application/json']
  )
  for (const content of contents.filter(Boolean)) {
    const examples = Object.entries(content.examples)
    for (const [name, example] of examples) if (example['x-retry']) failures[name] = example
    // One needs no choice.
    content.example = examples[0][1].value
    delete content.examples
  }
  if (operation.requestBody) contents[0].example = { ...contents[0].example, id: Number(freshId()) }
  // Each group of failures can be folded: on a phone they are long.
  operation.responses[400].description = operation.responses[400].description.replace(
    /^### (.+)\n\n((?:\|.*\n)+)/gm,
    (_, group, table) =>
      `<div><details${isWide ? ' open' : ''}><summary>${group}</summary>\n\n${table}\n</details></div>\n`
  )
}

/** The link that `npm run dev` prints has a token; only a service on this machine may be given one so. It leaves the address bar. */
const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname)
const linked = isLocal ? new URLSearchParams(location.hash.slice(1)).get('token') : null
const kept = 'plant-store token'
if (linked !== null) {
  sessionStorage.setItem(kept, linked)
  history.replaceState(null, '', location.pathname + location.search)
}
// A reload keeps what was typed, the end of the tab does not.
const token = sessionStorage.getItem(kept) ?? ''

function useToken(actions, text) {
  sessionStorage.setItem(kept, text)
  if (text === '') actions.logout(['bearer'])
  else ui.preauthorizeApiKey('bearer', text)
}

/** Instead of Swagger UI's dialog: a field, and where its text comes from. */
const TokenField =
  (_, { React: { createElement: h, useState }, authActions }) =>
  () => {
    const [isEmpty, setEmpty] = useState(token === '')
    const onInput = ({ target }) => {
      setEmpty(target.value === '')
      useToken(authActions, target.value.trim())
    }
    const hint = isEmpty
      ? 'Requests need a token. npm run dev prints a link that has one. Elsewhere the operator makes it: npm run token NAME, or docker compose run --rm -T setup NAME.'
      : 'Execute sends it with each request.'
    return h(
      'section',
      { className: 'token', 'aria-label': 'Token' },
      h('label', { htmlFor: 'token' }, 'Bearer token'),
      h('input', {
        id: 'token',
        type: 'text',
        autoComplete: 'off',
        spellCheck: false,
        defaultValue: token,
        onInput,
        'aria-describedby': 'token-hint'
      }),
      h('p', { id: 'token-hint' }, hint)
    )
  }

/** What a response means, in a sentence or two. */
function explain(status, headers = {}) {
  const name = headers['error-name']
  const found = failures[name]
  if (found)
    return `${name}. ${found.description} Retry: ${found['x-retry']}.`
      .replaceAll('`', '')
      .replace('after Retry', 'after the seconds in Retry')
  if (status !== 200) return name ?? 'This is not a response of the service. Send the same request again.'
  if (headers['idempotent-replayed']) return 'An earlier request with this key had stored the plant.'
  return 'The plant is stored. The form has another id and key now.'
}

/** The last response, and above it what it means. */
const Explained =
  (Original, { React: { createElement: h, Fragment } }) =>
  (props) => {
    const { status, headers } = props.response.toJS()
    const className = status === 200 ? 'meaning good' : 'meaning'
    return h(
      Fragment,
      null,
      h('p', { className, role: 'alert' }, explain(status, headers)),
      h(Original, props)
    )
  }

/** After a success, another id and key: with the same ones, the next request would get the same response. */
const renewing =
  (setResponse, { specActions, specSelectors, oas3Actions, oas3Selectors }) =>
  (path, method, response) => {
    const result = setResponse(path, method, response)
    if (response.status !== 200) return result
    const place = [path, method]
    const parameters = specSelectors.specResolvedSubtree(['paths', path, method, 'parameters'])
    const key = parameters.find((parameter) => parameter.get('name') === idempotencyKey)
    if (key) specActions.changeParamByIdentity(place, key, freshKey())
    const body = oas3Selectors.requestBodyValue(path, method)
    if (typeof body === 'string')
      oas3Actions.setRequestBodyValue({
        value: body.replace(/("id"\s*:\s*)-?\d+/, (_, start) => start + freshId()),
        pathMethod: place
      })
    return result
  }

const nothing = () => () => null
const plugin = {
  wrapComponents: {
    AuthorizeBtnContainer: TokenField,
    authorizeOperationBtn: nothing,
    ServersContainer: nothing,
    liveResponse: Explained,
    TextArea:
      (Original, { React: { createElement: h } }) =>
      (props) =>
        h(Original, { ...props, 'aria-label': 'Request body' }),
    InfoContainer:
      (Original, { React: { createElement: h } }) =>
      (props) =>
        h('div', { role: 'banner' }, h(Original, props)),
    // Headings come in order: the page's, then the operations'.
    OperationTag:
      (Original, { React: { createElement: h, Fragment } }) =>
      (props) =>
        h(Fragment, null, h('h2', { className: 'operations' }, 'Operations'), h(Original, props))
  },
  statePlugins: { spec: { wrapActions: { setResponse: renewing } } }
}

const ui = globalThis.SwaggerUIBundle({
  dom_id: '#reference',
  spec,
  plugins: [plugin],
  validatorUrl: null,
  syntaxHighlight: { activated: false },
  docExpansion: 'full',
  defaultModelsExpandDepth: 3,
  defaultModelExpandDepth: 3,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  onComplete: () => token && ui.preauthorizeApiKey('bearer', token)
})
