// Creates a plant by the rules of ../clients.md.

const { PLANTS_URL, PLANTS_TOKEN, PLANTS_RETRY_SECONDS = 120 } = process.env
if (!PLANTS_URL || !PLANTS_TOKEN) throw new Error('set PLANTS_URL and PLANTS_TOKEN')
const worthAnotherTry = new Set([408, 429, 500, 503])

/** Creates a plant, whose id is a number or a BigInt. Throws with `writeOutcome`, that of all attempts together. */
async function createPlant({ id, ...rest }, key) {
  const url = new URL(PLANTS_URL)
  const request = {
    method: 'POST',
    // Throws at once for what no header field can hold.
    headers: new Headers({
      Authorization: `Bearer ${PLANTS_TOKEN}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': key
    }),
    body: JSON.stringify({ id: JSON.rawJSON(id), ...rest })
  }
  const end = Date.now() + PLANTS_RETRY_SECONDS * 1000
  let writeOutcome = 'none'
  for (let spread = 1; ; spread = Math.min(2 * spread, 8)) {
    let failure
    let isFinal = false
    let seconds = Math.random() * spread
    try {
      const response = await fetch(url, { ...request, signal: AbortSignal.timeout(30_000) })
      const body = await response.json()
      if (response.status === 200 && body.name !== undefined) return body
      // Anything else is a proxy's.
      const isOurs = response.status === 400 && Number.isInteger(body.error)
      isFinal = isOurs && !worthAnotherTry.has(body.error)
      if (!isFinal && response.headers.get('Write-Outcome') !== 'none') writeOutcome = 'unknown'
      const errorName = response.headers.get('Error-Name')
      const requestId = response.headers.get('X-Request-Id')
      failure = Object.assign(new Error(body.message), { error: body.error, errorName, requestId })
      seconds += Number(response.headers.get('Retry-After')) || 0
    } catch (lost) {
      failure = lost
      writeOutcome = 'unknown'
    }
    if (isFinal || Date.now() + seconds * 1000 > end) throw Object.assign(failure, { writeOutcome })
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  }
}

// Store the key with your work item before the first attempt.
const key = crypto.randomUUID()
const plant = await createPlant(
  { id: 9223372036854775802n, name: 'Monstera', tag: 'tropical' },
  key
)
console.log(JSON.stringify(plant))
