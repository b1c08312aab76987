/** docs/upgrading.md, as it stands there: from the stack of 1.0.0 to today's under load, and back; no plant is lost. */
import { randomBytes } from 'node:crypto'
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openProject } from '../../support/compose.ts'
import { docker, inspect, root, sourceDateEpoch } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { assertRows } from '../../support/histories/assert-rows.ts'
import { selectRows } from '../../support/histories/history.ts'
import { judgeHistory } from '../../support/histories/judge.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { createPlant } from '../../support/post.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { copyCheckout } from './stack.ts'

/** The commit that 1.0.0 was released from. */
const release = 'fd35cf17e0fdc29be3dc20222c754527d5985bfb'
const found = await execute('git', ['cat-file', '-t', release], { cwd: root }).catch(() => '')
const skip = found !== 'commit' && 'the history of the repository is not here'
const name = `plant-store-upgrade-${randomBytes(4).toString('hex')}`
const port = await freePort()
const env = { COMPOSE_PROGRESS: 'quiet', SOURCE_DATE_EPOCH: String(sourceDateEpoch) }
const settings = `COMPOSE_PROJECT_NAME=${name}\nPORT=${port}\n`
/** Two that are gone, and one that is too large for another's default, which is smaller today. */
const outdated = 'TRUST_PROXY=1\nWRITE_BATCH_BYTES=65536\nBODY_LIMIT_BYTES=50000000\n'

/** Writes 1.0.0 to a directory. Its image lacked a file that its build needs. */
async function extractRelease(directory: string) {
  await mkdir(directory)
  await execute('bash', ['-c', `git archive ${release} | tar -x -C ${directory}`], { cwd: root })
  await appendFile(join(directory, '.dockerignore'), '!dev/prepare.ts\n')
  const file = join(directory, 'Dockerfile')
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replace('COPY public public\n', '$&COPY dev/prepare.ts dev/\n'))
  // With an image of its own.
  const compose = join(directory, 'docker-compose.yml')
  const declared = await readFile(compose, 'utf8')
  await writeFile(compose, declared.replace('_IMAGE:-plant-store}', `_IMAGE:-${name}}`))
  await writeFile(join(directory, '.env'), settings + outdated)
}

/** Reads the page's commands: a list for each of its blocks. */
async function readBlocks(old: string): Promise<string[][]> {
  const page = await readFile(join(root, 'docs/upgrading.md'), 'utf8')
  const local = page.replaceAll('../plant-store-1.0.0', old).replace(/\bplant-store(?=[ :])/g, name)
  const blocks = local.match(/(^ {4}.*\n)+/gm) ?? []
  return blocks.map((block) => block.trim().split(/\n\s*/))
}

/** Runs lines of the page, as a person who pastes them. */
const run = (directory: string, lines: string[]) =>
  execute('bash', ['-c', ['set -euo pipefail', ...lines].join('\n')], { cwd: directory, env })

/** Starts 1.0.0 beside a copy of the checkout; removes both at teardown. */
async function startRelease(t: Test) {
  const scratch = await mkdtemp(join(tmpdir(), 'plant-store-upgrade-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  const [old, cwd] = [join(scratch, 'plant-store-1.0.0'), await copyCheckout(t)]
  await extractRelease(old)
  const today = openProject(cwd, { ...env, COMPOSE_PROJECT_NAME: name })
  t.teardown(async () => {
    if (!t.passing()) t.comment(await today.compose('logs', '--tail=50'))
    await today.compose('--profile=*', 'down', '--volumes', '--remove-orphans', '--timeout=5')
    const tags = await docker(['image', 'ls', '--format={{.Repository}}:{{.Tag}}', `${name}*`])
    await docker(['image', 'rm', '--force', ...tags.split('\n')])
  })
  await run(old, ['docker compose build', 'docker compose up --wait'])
  return { old, cwd, query: (sql: string) => today.psql('db', 'plants', sql) }
}

const containers = async (...filters: string[]) => {
  const labels = [`project=${name}`, ...filters]
  const ofProject = labels.map((label) => `--filter=label=com.docker.compose.${label}`)
  return (await docker(['ps', '--no-trunc', '--quiet', ...ofProject])).split('\n').sort()
}
const images = async () =>
  (await inspect(...(await containers('service=api')))).map(({ Image }: { Image: string }) => Image)

/** Asserts that the settings of 1.0.0 and its image are refused by name, and that nothing has stopped; mends them. */
async function assertRefused(t: Test, cwd: string, lines: string[]) {
  const before = await containers()
  const refused = await run(cwd, lines).catch((error) => error.stderr)
  t.strictSame(refused.trimEnd().split('\n').sort(), [
    'check-settings: TRUST_PROXY is ignored: remove it',
    'check-settings: WRITE_BATCH_BYTES is ignored: remove it',
    'check-settings: WRITE_QUEUE_BYTES must be at least BODY_LIMIT_BYTES + 64 (50000064)'
  ])
  const ofOld = run(cwd, [`PLANT_STORE_IMAGE=${name}:1.0.0 ops/check-settings`])
  await t.rejects(ofOld, /PLANT_STORE_IMAGE must name a newer release: 1\.0\.0 cannot run/)
  t.strictSame(await containers(), before)
  const file = join(cwd, '.env')
  await writeFile(file, (await readFile(file, 'utf8')).replace(outdated, ''))
}

t.test('a stack of 1.0.0 under load, upgraded and taken back', { skip }, async (t) => {
  const { old, cwd, query } = await startRelease(t)
  const [keep, upgrade, back] = (await readBlocks(old)) as [string[], string[], string[]]
  const readToken = (directory: string) => run(directory, ['docker compose run --rm -T setup dev'])
  const token = await readToken(old)
  const origin = `http://127.0.0.1:${port}`
  const create = (id: number, key: string) =>
    createPlant(origin, token, { id, name: 'Fern' }, { 'idempotency-key': key })
  /** Starts clients that repeat what fails, with ids from this one on. */
  const startClients = async (firstId: number) => {
    const optional = ['tag'] as const
    const options = { token, urls: [origin], optional }
    const load = startRivals({ ...options, clients: 16, pauseMs: 160, firstId, isRepeating: true })
    t.teardown(() => load.stop())
    await load.succeed(100)
    const rows = () => query(selectRows(firstId, firstId + 999_998))
    return { ...load, rows: async () => (await rows()).map((line) => JSON.parse(line)) }
  }
  t.equal(await create(-1, 'old'), '200 {"name":"Fern"}')
  const imagesOfOld = await images()
  const load = await startClients(1)
  await run(old, keep)
  t.equal((await readFile(join(old, 'before.dump'))).subarray(0, 5).toString(), 'PGDMP')
  const check = upgrade.findIndex((line) => line.startsWith('ops/check-settings'))
  await assertRefused(t, cwd, upgrade.slice(0, check + 1))
  await run(cwd, upgrade.slice(check))
  await load.succeed(200)
  const history = await load.stop()
  assertRows(t, await load.rows(), history)
  t.strictSame(history.failed, [], 'no create failed for good')
  t.notOk((await images()).includes(imagesOfOld[0]))
  t.equal(await readToken(cwd), token)
  t.equal(await create(-1, 'old'), '200 {"name":"Fern"}', 'a replay of what 1.0.0 has stored')
  t.match(await create(-1, 'other'), '"error":409')
  t.equal(await create(-2, 'new'), '200 {"name":"Fern"}')
  const later = await startClients(1_000_000)
  await run(cwd, back)
  await later.succeed(200)
  const { operations, failed } = await later.stop()
  t.strictSame(await images(), imagesOfOld)
  t.strictSame(failed, [], 'no create failed for good')
  const faults = judgeHistory(operations, await later.rows())
  // As the page says.
  t.strictSame(faults.filter((fault) => !fault.startsWith('told "taken" by its own write')).slice(0, 5), [])
  t.strictSame(await query('select id from plants where id < 0 order by 1'), ['-2', '-1'])
})
