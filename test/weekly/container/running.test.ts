/**
 * docs/running.md, as it stands there, on a Debian with systemd, PostgreSQL and nginx: all that its commands start and change,
 * twice and under load, fails no request.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { docker, psql, root } from '../../support/docker.ts'
import { assertRows } from '../../support/histories/assert-rows.ts'
import { selectRows } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { until } from '../../support/until.ts'
import { copyCheckout } from './stack.ts'

const name = `plant-store-running-${randomBytes(4).toString('hex')}`
/** systemd is process 1; the engine may have its groups of processes in their older form, which systemd no longer takes. */
const dockerfile = `FROM ${process.env.NODE_IMAGE ?? 'node:24-trixie-slim'}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \\
  systemd systemd-sysv dbus nginx postgresql git openssl ca-certificates
CMD ["sh", "-c", "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec /sbin/init"]
`
const confinement = [
  ...['--cap-add=ALL', '--cap-drop=SYS_RESOURCE'],
  ...['--security-opt=seccomp=unconfined', '--security-opt=apparmor=unconfined']
]
/** PostgreSQL and its superuser, as the page expects them. */
const environment = ['PGHOST=localhost', 'PGUSER=postgres', 'PGPASSWORD=thyme']

const setPassword = (port: number) =>
  `su postgres -c "psql --port=${port} --quiet --command=\\"alter role postgres password 'thyme'\\""`

/** Reads the page's commands: the lines of each of its blocks, on this machine. */
async function readBlocks(): Promise<string[][]> {
  const page = (await readFile(join(root, 'docs/running.md'), 'utf8'))
    .replaceAll('https://github.com/OWNER/plant-store', '/srv/plant-store')
    .replaceAll('…@db/', 'thyme@localhost/')
    .replaceAll('sslmode=verify-full', 'sslmode=disable')
    // Other machines are served, as the page says: this one publishes the port.
    .replace(
      'cp ops/nginx/nginx.conf',
      "sed 's/127.0.0.1:3000/3000/' ops/nginx/nginx.conf | install /dev/stdin"
    )
  return (page.match(/(?:^ {4}.*\n)+/gm) ?? []).map((block) => block.trim().split(/\n\s*/))
}

/** Starts the machine, with the checkout's files as the branch main of a repository; removes it at teardown. */
async function startMachine(t: Test) {
  const scratch = await mkdtemp(join(tmpdir(), 'plant-store-running-'))
  t.teardown(() => rm(scratch, { recursive: true, force: true }))
  await writeFile(join(scratch, 'Dockerfile'), dockerfile)
  await docker(['build', '--network=host', '--quiet', `--tag=${name}`, scratch])
  t.teardown(async () => {
    await docker(['rm', '--force', '--volumes', name])
    await docker(['image', 'rm', '--force', name])
  })
  const options = [`--name=${name}`, '--detach', '--publish=127.0.0.1::3000', '--tmpfs=/run', '--tmpfs=/tmp']
  await docker(['run', ...options, ...confinement, name])
  await docker(['cp', '--quiet', await copyCheckout(t), `${name}:/srv/plant-store`])
  /** Runs lines as a person who pastes them into one shell, and types the password wherever one is asked for. */
  const run = (lines: string[], variables: string[] = environment) => {
    const script = ['exec < <(yes thyme)', 'umask 022', 'set -euo pipefail', ...lines].join('\n')
    const given = variables.map((variable) => `--env=${variable}`)
    return docker(['exec', ...given, name, 'bash', '-c', script])
  }
  const isUp = () => run(['systemctl is-system-running']).catch(({ stdout }) => `${stdout}`.trim())
  await until('systemd has started', isUp, (state) => /^(running|degraded)$/.test(state))
  const commit = 'git -c user.name=a -c user.email=a@plants.test commit --quiet --all --message=release'
  await run(
    [
      'chown -R root: /srv/plant-store && chmod -R go=u-w /srv/plant-store && cd /srv/plant-store',
      `git init --quiet --initial-branch=main && git add --all && ${commit}`,
      setPassword(5432)
    ],
    []
  )
  return { run, url: `http://${await docker(['port', name, '3000'])}` }
}

/** The second run of lines: what makes something says that it exists. Building once more would only take time. */
const again = (lines: string[]) =>
  lines
    .map((line) => line.replace(' && npm ci && npm run build', ''))
    .map((line) => (/^(git clone|createdb|useradd) /.test(line) ? `! ${line} 2>>/root/refused` : line))

t.test('the page, from nothing to a second server', async (t) => {
  const { run, url } = await startMachine(t)
  const blocks = await readBlocks()
  const linesOf = (first: number, last = first) => blocks.slice(first, last + 1).flat()
  const [start, restart, release, back] = [linesOf(0, 3), linesOf(4), linesOf(5), linesOf(6)]
  const [revoke, dump, restore] = [linesOf(7), linesOf(8), linesOf(9)]
  t.equal(blocks.length, 10)
  // Another caller's token beside that of the page, which is revoked.
  const first = start.flatMap((line) =>
    line.includes('token -- alice')
      ? [line, line.replace('alice', 'load').replace('/dev/stderr', '/root/token')]
      : [line]
  )
  t.match(await run(first), /migrated: /)
  const token = await run(["sed -n 's/^token  //p' /root/token"])
  const startLoad = (firstId: number) => {
    const load = startRivals({ urls: [url], token, clients: 16, pauseMs: 160, firstId })
    t.teardown(() => load.stop())
    return load
  }
  const readRows = async (port: number) => {
    const query = psql('postgres', 'plants', selectRows(1, 999_999))
    const given = ['--env=PGPASSWORD=thyme', name, ...query, '--host=localhost', `--port=${port}`]
    return (await docker(['exec', ...given])).split('\n').map((line) => JSON.parse(line))
  }

  const load = startLoad(1)
  await load.succeed(100)
  // nginx's reload may lose requests, as the page says.
  await run(again(start.slice(0, -1)))
  for (const change of [restart, restart, release, again(release), back, back]) {
    await run(change)
    await load.succeed(100)
  }
  t.equal((await run(['cat /root/refused'])).match(/already exists/g)?.length, 4)
  await run([...revoke, ...revoke, '! grep -q ^alice: /etc/plant-store/tokens'])
  await run(['systemctl restart postgresql'])
  await load.succeed(100)
  const history = await load.stop()
  const rows = await readRows(5432)
  assertRows(t, rows, history)
  t.strictSame(history.failed, [], 'no client saw an error')

  await run([...start.slice(-1), ...dump])
  const makeServer = 'pg_createcluster "$(pg_lsclusters -h | cut -d " " -f 1)" second --port=5433 --start'
  const rename =
    'sed -i s/@localhost/@localhost:5433/ /etc/plant-store/database-url /etc/plant-store/owner-url'
  await run([makeServer, setPassword(5433), rename], [])
  await run(['cd /opt/plant-store', ...restore], [...environment, 'PGPORT=5433'])
  const later = startLoad(1_000_000)
  await later.succeed(100)
  t.strictSame((await later.stop()).failed, [])
  t.strictSame((await readRows(5433)).length, rows.length, 'every plant has moved')
})
