/**
 * The scripts of ops/ are killed at each of their steps, and run again: the end is the same, two replicas serve all the while,
 * and nothing incomplete looks whole. Docker is a stand-in (harness/scripts/fake-docker.bash); the real one is in test/container.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { execute } from '../../harness/execute.ts'
import { atEachStep, makeRoot, runScript, writeExecutable } from '../../harness/scripts/scripts.ts'
import type { Teardown } from '../../harness/teardown.ts'

const project = join(import.meta.dirname, '../..')
const root = makeRoot(t, [])
cpSync(join(project, 'ops'), join(root, 'ops'), { recursive: true })
const fake = readFileSync(join(project, 'harness/scripts/fake-docker.bash'), 'utf8')
writeExecutable(join(root, 'programs/docker'), fake)
writeExecutable(join(root, 'programs/sleep'), '#!/bin/sh\n')
writeExecutable(join(root, 'programs/git'), '#!/bin/sh\necho 0123456789ab\n')
const [state, backup, received] = ['state', 'state/backups/whole', 'state/backups/received'].map((path) =>
  join(root, path)
) as [string, string, string]
const PATH = `${root}/programs:${process.env.PATH}`
const shell = (script: string, cwd = root) =>
  execute('bash', ['-euc', script], { cwd, env: { PATH, STATE: state, FAULT: '' } })

const own = '# mine\nPLANT_STORE_IMAGE=old\nLOG_LEVEL=debug'
const before = 'PLANT_STORE_PREVIOUS_IMAGE=older\n'

/** Makes a stack that serves, and a backup of it; then runs this. */
const reset = (then = '') =>
  shell(`
    rm -rf state .env* elsewhere && mkdir -p state/{images,backups/{whole,received},stacks/plant-store/{replicas,secrets}}
    for image in old older broken failing refused; do echo sha256:$image >state/images/$image; done
    echo sha256:stale >state/images/registry%app:1
    cd state/stacks/plant-store
    for name in 11 12; do echo old healthy >replicas/c$name; done
    for name in api certificate db migrate tokens; do mkdir secrets/$name; done
    for name in api/database-url api/tokens certificate/balancer.pem db/superuser-password migrate/database-url tokens/alice; do
      echo $name >secrets/$name
    done
    printf '1\\n2\\n' >plants
    cd ../..
    echo 12 >last
    (cat stacks/*/plants && echo end) >backups/whole/plants.dump
    printf '${own}' >backups/whole/.env
    tar -C stacks/plant-store/secrets -cf backups/whole/secrets.tar api certificate db migrate tokens
    cp backups/whole/{.env,secrets.tar} backups/received
    cp stacks/plant-store/plants backups/received/stream
    cd ..
    printf '${own}\n${before}' >.env
    ${then}`)

/** Each line of each file, without the numbers of replicas, and the tag that a pull takes for a moment. */
async function look() {
  const lines = await shell(`
    (find .env* state -empty -type f; grep -ra '' .env* state --exclude={*.tar,last}) | sort | sed -E '
      s|replicas/c[0-9]+|replicas/c|; s/starting/healthy/
      /images.registry%app:1:/d; /backups.new[.]/d'`)
  return lines.split('\n')
}

type Env = Record<string, string>
const run = ([script, ...args]: string[], env: Env = {}, at = 0) =>
  runScript(root, [`ops/${script}`, ...args], { at, env: { STATE: state, FAULT: '', ...env } })

const updated = (image: string) => `${own.replace('=old', `=${image}`)}\nPLANT_STORE_PREVIOUS_IMAGE=old\n`
const kept = `${own}\n${before}`
/** Commands, .env at their end, how they are killed, and what was done before. */
const table: [string[], string, string[]?, string?, Env?][] = [
  [['rolling-update', 'registry/app:1'], updated('registry/app@sha256:new'), ['KILL', 'TERM']],
  [['rolling-update'], updated('plant-store-api:0123456789ab-0123456789ab')],
  [['rolling-update', '--back'], `${own.replace('=old', '=older')}\n${before}`],
  [['scale', '4'], `${kept}REPLICAS=4\n`, ['KILL', 'TERM']],
  [['scale', '2'], `${kept}REPLICAS=2\n`, ['KILL'], 'cd state/stacks/*/replicas && cp c12 c13 && cp c12 c14'],
  [['get-image', 'registry/app:1'], updated('registry/app@sha256:new')],
  [['backup', `${backup}/../new`], kept],
  [
    ['restore', backup],
    own,
    ['KILL'],
    'rm .env',
    { COMPOSE_PROJECT_NAME: 'other', PLANT_STORE_IMAGE: 'old' }
  ],
  [
    ['restore', backup],
    own.replace('=old', '=other-api:0123456789ab-0123456789ab'),
    ['KILL'],
    // Its image was built on a machine that is lost.
    "rm .env && sed -i 's/=old/=other-api:gone/' state/backups/whole/.env",
    { COMPOSE_PROJECT_NAME: 'other' }
  ],
  [['restore', received], kept, ['KILL'], 'rm state/stacks/plant-store/plants'],
  [
    ['restore', received, 'yesterday'],
    own,
    ['KILL'],
    'rm .env',
    { COMPOSE_PROJECT_NAME: 'other', PLANT_STORE_IMAGE: 'old' }
  ],
  [['nightly-backup'], kept]
]

for (const [command, settings, signals = ['KILL'], prepare, env] of table) {
  t.test(`${command.join(' ').replaceAll(root, '')}, killed at each step`, async (t) => {
    await reset(prepare)
    const began = await look()
    t.match(await run(command, env), { code: 0 })
    const ended = await look()
    t.notOk(
      ended.some((line) => line.startsWith('state/short')),
      'two replicas serve all the while'
    )
    t.equal(readFileSync(join(root, '.env'), 'utf8'), settings)
    const isOfReplicas = (line: string) => line.includes('/replicas/')
    for (const signal of signals) {
      const steps = await atEachStep(t, async (at) => {
        await reset(prepare)
        const killed = await run(command, { ...env, SIGNAL: signal }, at)
        const left = await look()
        if (killed.code === 0) return killed
        const what = `SIG${signal} at step ${at}`
        // Until .env is written, what can be caught takes all back.
        if (signal === 'TERM' && !/^(cp|mv)$/m.test(readFileSync(join(root, 'log'), 'utf8')))
          t.strictSame(left.filter(isOfReplicas), began.filter(isOfReplicas), what)
        if (!isDeepStrictEqual(left, ended)) {
          let { code, stderr } = await run(command, env)
          const [down] =
            /docker compose --project-directory .* && docker volume rm [\w-]+$/m.exec(stderr) ?? []
          if (down) {
            await shell(down, '/') // as it says, from anywhere
            ;({ code, stderr } = await run(command, env))
          }
          t.equal(code, 0, `${what}: ${stderr}`)
        }
        t.strictSame(await look(), ended, what)
        return { ...killed, code: null }
      })
      t.ok(steps > 2, `${steps} steps`)
    }
  })
}

/** Listens on a port, and returns it. */
async function takePort(t: Teardown): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return String((server.address() as AddressInfo).port)
}

t.test('what fails changes nothing, and says why', async (t) => {
  const other = { COMPOSE_PROJECT_NAME: 'other', PLANT_STORE_IMAGE: 'old' }
  const rows: [string[], RegExp, Env?, string?][] = [
    [
      ['rolling-update', 'broken'],
      /a line of broken .*not become ready \(restarting unhealthy 1\); the old ones serve on\n$/s
    ],
    [
      ['rolling-update', 'failing'],
      /failures_total\{name="Internal"\} 1\n.*a line of failing .*creates fail in a new replica/s
    ],
    [['rolling-update', 'refused'], /WRITE_LANES must be an integer/],
    [['rolling-update', 'unknown'], /denied/],
    [['rolling-update'], /^$/, { FAULT: 'build' }, 'cp state/images/old state/images/plant-store-api:new'],
    [['rolling-update', '--back'], /has no PLANT_STORE_PREVIOUS_IMAGE/, {}, 'sed -i /PREVIOUS/d .env'],
    [['rolling-update', '--forward'], /usage/],
    [['scale', '65'], /usage/],
    [['scale', '3'], /no replica runs/, {}, 'rm state/stacks/*/replicas/*'],
    [['scale', '3'], /REPLICAS is exported as '5', but the default or \.env says '2'/, { REPLICAS: '5' }],
    [
      ['get-image'],
      /COMPOSE_PROJECT_NAME is exported as 'x', but the default or \.env says 'plant-store'/,
      { COMPOSE_PROJECT_NAME: 'x' }
    ],
    [['backup', `${backup}/../bad`], /^$/, { FAULT: 'dump' }],
    [['backup', `${backup}/../bad`], /tokens: Not found in archive/, { FAULT: 'secrets' }],
    [['backup', backup], /must not exist yet/],
    [['nightly-backup'], /1 of 2 plants were restored/, { FAULT: 'less' }],
    [['restore', backup], /the stack plant-store has a database; COMPOSE_PROJECT_NAME=other .*_data\n$/s],
    [['restore', received], /the stack plant-store has a database/, {}, 'rm state/stacks/*/replicas/*'],
    [
      ['restore', backup],
      /port \d+ of 127\.0\.0\.1 is taken: .*PORT=3100/,
      { ...other, PORT: await takePort(t) }
    ],
    [['restore', backup, 'yesterday'], /usage/],
    [['restore', received, 'some day'], /invalid date/],
    [
      ['rolling-update'],
      /has a pulled image, registry\/app@sha256:new: name the one/,
      {},
      "sed -i 's|=old|=registry/app@sha256:new|' .env"
    ],
    [['rolling-update', 'old'], /WATCH_SECONDS is a number of seconds/, { WATCH_SECONDS: '30s' }],
    [['scale', '3'], /the replicas run another image than older/, {}, 'sed -i s/=old$/=older/ .env'],
    [
      ['get-image', 'registry/app:1'],
      /registry\/app@sha256:stale is not what is in effect, registry\/app@sha256:second/,
      { FAULT: 'registry' },
      "sed -i 's|=old$|=registry/app@sha256:second|' .env"
    ],
    [
      ['restore', backup],
      /the stack other has a database/,
      other,
      'cp -r state/stacks/plant-store state/stacks/other && rm -r state/stacks/other/{secrets,replicas}/*'
    ],
    [
      ['restore', backup],
      /the plants of this backup cannot be read/,
      other,
      `echo 1 >${backup}/plants.dump; rm .env`
    ],
    // Cut where an entry begins, which tar takes for the end.
    [
      ['restore', backup],
      /tokens: Not found in archive/,
      other,
      `tar --delete -f ${backup}/secrets.tar tokens`
    ]
  ]
  for (const [command, message, env, prepare] of rows) {
    await reset(prepare)
    const began = (await look()).filter((line) => !line.startsWith('state/short'))
    const { code, stderr } = await run(command, env)
    t.not(code, 0, `${message}`)
    t.match(stderr, message)
    const left = (await look()).filter((line) => !line.startsWith('state/short'))
    t.strictSame(left, began, `${message}`)
  }
})

t.test('without its registry, an image is the one that is here, and the script says so', async (t) => {
  await reset()
  const { stdout, stderr } = await run(['get-image', 'registry/app:1'], { FAULT: 'registry' })
  t.equal(stdout, 'registry/app@sha256:stale\n')
  t.match(
    stderr,
    /connection refused\nget-image: the registry cannot be reached: using what was pulled from it before/
  )
})

t.test('.env keeps every other byte, its mode and its place, and is made where there is none', async (t) => {
  const served = 'sed -i s/old/plant-store-api/ state/stacks/plant-store/replicas/*'
  const file = String.raw`# REPLICAS=7\n export REPLICAS = 4 # four\n\nA="b\\n"\r\nREPLICAS_X=1`
  await reset(`printf '${file}' >elsewhere && chmod 640 elsewhere && ln -sf elsewhere .env; ${served}`)
  t.match(await run(['scale', '3']), { code: 0 })
  const [mode, type, ...lines] = (await shell('stat -c %a elsewhere; stat -c %F .env; cat elsewhere')).split(
    '\n'
  )
  t.strictSame([mode, type], ['640', 'symbolic link'])
  t.strictSame(lines, ['# REPLICAS=7', 'REPLICAS=3', '', 'A="b\\n"\r', 'REPLICAS_X=1'])
  await reset(`rm .env; ${served}`)
  t.match(await run(['scale', '3']), { code: 0 })
  t.equal(readFileSync(join(root, '.env'), 'utf8'), 'REPLICAS=3\n')
})

t.test('a restore keeps the secrets that are there, and names the tokens that it brings back', async (t) => {
  await reset('rm state/stacks/plant-store/plants && echo newer >state/stacks/plant-store/secrets/api/tokens')
  t.strictSame(await run(['restore', received]), { code: 0, stdout: '', stderr: '' })
  t.equal(await shell('cat state/stacks/plant-store/secrets/api/tokens'), 'newer')
  const { stderr } = await run(['restore', received], { COMPOSE_PROJECT_NAME: 'other' })
  t.match(stderr, / -p other run --rm -T setup --revoke alice\n$/)
})

t.test('a second script refuses while one runs; each has at most 90 lines, all together 400', async (t) => {
  await reset()
  const lock = spawn('flock', [join(root, 'ops'), 'sh', '-c', 'echo locked && cat'])
  await once(lock.stdout, 'data')
  for (const command of [
    ['rolling-update', 'old'],
    ['scale', '3'],
    ['get-image', 'old']
  ])
    t.match(await run(command), { code: 1, stdout: '', stderr: `${command[0]}: another one runs\n` })
  lock.stdin.end()
  await once(lock, 'close')
  const long = `find ops/* ops/lib/* -maxdepth 0 -type f -exec awk 'FNR == 91 { print FILENAME }' {} +`
  t.equal(await shell(long), '')
  const scripts = `find ops/* ops/lib/* -maxdepth 0 -type f ! -name '*.mjs' -exec cat {} + | wc -l`
  t.ok(Number(await shell(scripts)) <= 400)
})
