/** `npm run bench -- container`: the image's size compared with its base's, and the time from a container's start to its first 200. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildImage, docker, inspect, statusOf } from '../harness/docker/docker.ts'
import { startDatabase } from '../harness/docker/docker-database.ts'
import { describeMachine } from './machine.ts'

const rounds = 9
const base = process.env.NODE_IMAGE || 'node:24.21.0-trixie-slim'
const tag = `plant-store-bench-${randomBytes(4).toString('hex')}`

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1)

await buildImage(tag)
const [image, { Size: baseSize }] = await inspect(tag, base)
const history = await docker(['history', '--human=false', '--format={{.Size}} {{.CreatedBy}}', tag])
const layers = history.split('\n').map((line) => Number(line.split(' ')[0]))
const [application = 0, packages = 0] = layers.filter((size) => size > 0)

const database = await startDatabase()
const settings = [
  '--network',
  database.network,
  '--env',
  `DATABASE_URL=${database.url}`,
  '--env=METRICS_PORT=off'
]
const probe = '/readyz'
const times: number[] = []
try {
  await docker(['run', '--rm', ...settings, tag, 'node', 'dist/commands/migrate.js'])
  for (let round = 0; round < rounds; round++) times.push(await measureStart())
} finally {
  await database.remove()
  await docker(['image', 'rm', '--force', tag])
}
times.sort((a, b) => a - b)
const [fastest, median, slowest] = [times[0], times[Math.floor(rounds / 2)], times.at(-1)]

process.stdout.write(`${describeMachine([base])}.

| | MB |
| --- | ---: |
| base image | ${megabytes(baseSize)} |
| image | ${megabytes(image.Size)} |
| image over its base | ${megabytes(image.Size - baseSize)} |
| of it: packages | ${megabytes(packages)} |
| of it: code, migrations, the page | ${megabytes(application)} |

Container start to the first 200 of \`${probe}\`, in ms, of ${rounds} starts: fastest ${fastest}, median ${median}, slowest ${slowest}.
`)

/** Starts a container that was made before; the time is in ms. */
async function measureStart(): Promise<number> {
  const flags = [
    `--env=AUTH_TOKENS=bench:${randomBytes(16).toString('hex')}`,
    '--publish=127.0.0.1::3000',
    '--read-only'
  ]
  const id = await docker(['create', ...settings, ...flags, tag])
  try {
    const began = performance.now()
    await docker(['start', id])
    const url = `http://${await docker(['port', id, '3000/tcp'])}${probe}`
    while ((await statusOf(url)) !== 200) await sleep(5)
    return Math.round(performance.now() - began)
  } finally {
    await docker(['rm', '--force', id])
  }
}
