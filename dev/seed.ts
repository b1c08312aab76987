/**
 * `npm run seed`: creates five plants at the running `npm run dev`, and prints each response. Running it again creates nothing
 * new: each request has an `Idempotency-Key`. PLANTS_URL and PLANTS_TOKEN name another service.
 */
import { readFile } from 'node:fs/promises'
import { directoryOf, tokenFile } from './data.ts'

const { PORT, BASE_PATH = '', PLANTS_URL, PLANTS_TOKEN } = process.env
const url = PLANTS_URL || `http://127.0.0.1:${PORT || 3000}${BASE_PATH}/plants`
const token =
  PLANTS_TOKEN || (await readFile(tokenFile(directoryOf(process.argv[2])), 'utf8').catch(() => ''))
if (!token) giveUp('it finds no token: start npm run dev, or set PLANTS_TOKEN')

/** Ids are text, because a number of JavaScript would round the last one. */
const plants = [
  { id: '1', name: 'Monstera', tag: 'tropical' },
  { id: '2', name: 'Aloe', tag: 'succulent' },
  { id: '3', name: 'Fern', tag: 'shade' },
  { id: '4', name: 'Cactus' },
  { id: '9223372036854775807', name: 'Ivy', tag: 'climber' }
]

for (const { id, ...rest } of plants) {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': `seed-${id}`
    },
    body: JSON.stringify(rest).replace('{', `{"id":${id},`)
  }).catch(() => giveUp(`nothing answers at ${url}: start npm run dev, or set PLANTS_URL`))
  const isRepeat = response.headers.has('Idempotent-Replayed')
  process.stdout.write(
    `${id}: ${response.status} ${await response.text()}${isRepeat ? ' (stored before)' : ''}\n`
  )
  if (!response.ok) process.exitCode = 1
}

function giveUp(reason: string): never {
  process.stderr.write(`npm run seed: ${reason}\n`)
  process.exit(1)
}
