/** The stack of docker-compose.yml: the README's tour, how it is confined, an update and a scaling under load. */
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { commandsOf } from '../../support/pages.ts'
import { createPlant } from '../../support/post.ts'
import { root } from '../../support/process.ts'
import { copyStack, docker, inspect } from '../../support/stack.ts'
import { until } from '../../support/until.ts'

const stack = await copyStack(t)

t.test("the README's tour, line by line", async (t) => {
  const tour = readFileSync(join(root, 'README.md'), 'utf8')
    .split('\n### The tour\n')[1]
    ?.split(/\n#+ /)[0]
  const lines = tour?.match(/(?<=^ {4}).+/gm) ?? []
  const told = lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2))
  t.ok(told.length >= 7)
  // The tour's port may be taken here: the balancer's is a free one.
  const printed = await stack.play(
    lines.join('\n').replaceAll('127.0.0.1:3000', new URL(stack.url).host)
  )
  const all = printed.split('\n').filter((line) => line !== '')
  t.strictSame(
    all.slice(-told.length).map((line) => line.trimEnd()),
    told
  )
})

t.test(
  'only the balancer is published, on 127.0.0.1, and every container is confined',
  async (t) => {
    const containers = await inspect(...(await stack.compose('ps', '--all', '--quiet')).split('\n'))
    for (const { HostConfig: host, Config: config, NetworkSettings: network } of containers) {
      const service = config.Labels['com.docker.compose.service']
      const published = Object.values<{ HostIp: string }[] | null>(network.Ports ?? {}).flatMap(
        (all) => all ?? []
      )
      const addresses = published.map(({ HostIp }) => HostIp)
      t.strictSame(addresses, service === 'balancer' ? ['127.0.0.1'] : [], service)
      t.match(host, { ReadonlyRootfs: true, CapDrop: ['ALL'], Privileged: false }, service)
      t.strictSame(host.SecurityOpt, ['no-new-privileges:true'], service)
      for (const limit of [host.Memory, host.NanoCpus, host.PidsLimit])
        t.ok(limit > 0, `${service} is limited`)
      const secret = config.Env.filter((entry: string) =>
        /PASSWORD=|TOKENS=|:\/\/[^/]*@/.test(entry)
      )
      t.strictSame(secret, [], `${service}: no secret is in its environment`)
    }
  }
)

t.test(
  'the image holds what runs and nothing else, and its user can change nothing of it',
  async (t) => {
    const image = `${stack.name}-api`
    const run = (...command: string[]) =>
      docker(['run', '--rm', '--read-only', '--cap-drop=ALL', '--network=none', image, ...command])
    const list = (
      await run('sh', '-c', 'ls /app /app/node_modules; command -v npm npx yarn || true')
    ).split('\n')
    for (const kept of ['dist', 'migrations', 'package.json', 'fastify', 'pg'])
      t.ok(list.includes(kept), kept)
    const unwanted = [
      'src',
      'dev',
      'tap',
      'typescript',
      '.env',
      '/usr/local/bin/npm',
      '/usr/local/bin/npx'
    ]
    const found = unwanted.filter((each) => list.includes(each))
    t.strictSame(found, [])
    t.equal(await run('sh', '-c', 'find /app -xdev ! -type l -writable 2>/dev/null || true'), '')
    t.match((await inspect(image))[0].Config.User, /^[1-9]\d*:[1-9]\d*$/)
  }
)

t.test(
  'the image says what it is, from what the release workflow passes to its build',
  async (t) => {
    const given = {
      VERSION: '9.8.7',
      REVISION: 'a1b2c3',
      CREATED: '2026-11-29T00:00:00Z',
      SOURCE: 'https://plants.test/'
    }
    const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8')
    const passed = [
      ...(/build-args: \|\n((?: {12}.*\n)+)/.exec(workflow)?.[1]?.matchAll(/(\w+)=/g) ?? [])
    ]
    t.strictSame(passed.map(([, name]) => name).sort(), Object.keys(given).sort())
    const { NODE_IMAGE } = process.env
    const all = Object.entries({ ...given, ...(NODE_IMAGE && { NODE_IMAGE }) })
    const id = await docker([
      'build',
      '--quiet',
      ...all.map(([name, text]) => `--build-arg=${name}=${text}`),
      stack.cwd
    ])
    t.teardown(() => docker(['image', 'rm', '--force', id]))
    const { license, description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const labels = {
      title: 'plant-store',
      description,
      licenses: license,
      ...{
        version: given.VERSION,
        revision: given.REVISION,
        created: given.CREATED,
        source: given.SOURCE
      }
    }
    const expected = Object.entries(labels).map(([name, text]) => [
      `org.opencontainers.image.${name}`,
      text
    ])
    t.strictSame((await inspect(id))[0].Config.Labels, Object.fromEntries(expected))
  }
)

t.test('a second caller gets a token without a restart, and loses it again', async (t) => {
  const token = await stack.token('another')
  t.equal(await stack.token('another'), token, 'it is made once')
  const create = async () => createPlant(stack.url, token, { id: -1, name: 'Aloe' })
  const isKnown = (response: string) => !response.includes('401')
  t.equal(await until('the replicas have read the file', create, isKnown), '200 {"name":"Aloe"}')
  await stack.compose('run', '--rm', '-T', 'setup', '--revoke', 'another')
  await until('it is revoked', create, (response) => !isKnown(response))
  t.notMatch(await stack.compose('logs', 'setup'), token, 'no log has it')
})

t.test('scaled and updated under load, as docs/compose.md says: no client fails', async (t) => {
  const load = await stack.startClients(t)
  await writeFile(join(stack.cwd, '.env'), 'REPLICAS=3\n', { flag: 'a' })
  await stack.compose('up', '--detach', '--wait')
  const first = await stack.running('api')
  t.equal(first.length, 3)
  const lines = commandsOf('compose.md', 'Update').join('\n')
  t.match(lines, '--scale api=')
  await writeFile(join(stack.cwd, 'src/server.ts'), '\n// Another image.\n', { flag: 'a' })
  await stack.play(lines)
  const updated = await stack.running('api')
  t.equal(updated.length, 3)
  t.strictSame(
    updated.filter((id) => first.includes(id)),
    []
  )
  await stack.compose('up', '--detach', '--wait')
  t.strictSame((await stack.running('api')).sort(), updated.sort(), '`up` keeps them')
  await load.assertServed()
})

t.test(
  'the database is away for a while under load: replicas stay, and no client fails',
  async (t) => {
    const load = await stack.startClients(t)
    const since = new Date().toISOString()
    await stack.compose('stop', 'db')
    t.equal((await fetch(`${stack.url}/readyz`)).status, 200)
    await stack.compose('start', 'db')
    await load.assertServed()
    t.notMatch(await stack.compose('logs', '--since', since, 'balancer'), 'DOWN')
  }
)

t.test(
  'the passwords are rotated under load, and the database and a replica are restarted: no client fails',
  async (t) => {
    const load = await stack.startClients(t)
    const [replica = ''] = await stack.running('api')
    const readUrl = () => docker(['exec', replica, 'cat', '/run/secrets/database-url'])
    const before = await readUrl()
    await stack.play(commandsOf('compose.md', 'Rotate the passwords').join('\n'))
    t.not(await readUrl(), before)
    await stack.compose('restart', 'db')
    await docker(['restart', '--time=120', replica])
    await load.assertServed()
  }
)

t.test(
  'an image that keeps its data outside the volume is refused before anything is stored',
  async (t) => {
    // What it declares is what images before 18 declare.
    const image = `${stack.name}-postgres`
    const data = '/var/lib/postgresql/data'
    const build = `docker build --quiet --tag=${image} - <<'END'
FROM ${process.env.POSTGRES_IMAGE || 'postgres:18'}
ENV PGDATA=${data}
RUN install --directory --owner=postgres --mode=700 ${data}
VOLUME ${data}
END`
    await stack.play(build)
    const printed = await stack.play(
      `POSTGRES_IMAGE=${image} docker compose run --rm -T setup 2>&1 || true`
    )
    t.match(
      printed,
      /^setup: this image of PostgreSQL would keep its data in .*, outside the volume data: .*18 or later$/m
    )
    t.notMatch(printed, 'warning', 'it is the first thing that is said')
  }
)

t.test(
  'the database is upgraded as docs/compose.md says, with the name of the project in .env alone',
  async (t) => {
    const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
    for (const page of pages)
      t.notMatch(
        readFileSync(join(root, 'docs', page), 'utf8'),
        /\$\{?COMPOSE_PROJECT_NAME|docker volume rm/,
        page
      )
    const lines = commandsOf('compose.md', 'A major version').join('\n')
    t.match(lines, '-delete')
    const create = async (id: number) =>
      createPlant(stack.url, await stack.token(), { id, name: 'Fern' })
    t.equal(await create(-3), '200 {"name":"Fern"}')
    const before = await stack.plants()
    await stack.play(`unset COMPOSE_PROJECT_NAME\n${lines}`)
    t.strictSame(await stack.plants(), before)
    t.equal(await create(-4), '200 {"name":"Fern"}')
  }
)
