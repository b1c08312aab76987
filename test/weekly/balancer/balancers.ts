/** Balancers that this repository ships a configuration for, over two instances of the service on this machine. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { haproxyConfig, haproxyContainer } from '../../support/haproxy.ts'
import { createCertificate } from '../../support/postgres/certificates.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { root } from '../../support/process.ts'
import { until } from '../../support/until.ts'

/** A balancer that runs. */
export interface Balancer {
  url: string
  /** Where it speaks TLS. */
  tlsUrl?: string
  /** Takes the instance at a port out of use before it ends, and back once it serves, where checks do not. */
  leave?(port: number): Promise<void>
  comeBack?(port: number): Promise<void>
}

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
const read = (path: string) => readFileSync(join(root, 'ops', path), 'utf8')

/** Returns why tests of a program are skipped: false where it is there. */
export const isMissing = (command: string) =>
  spawnSync(command, ['-v'], { env }).error ? `${command} is not on the PATH` : false

/** Where a program works, and two free ports: it listens on the first. */
interface Place {
  directory: string
  port: number
  otherPort: number
}

/** The name of the container that listens on a port. */
const container = ({ port }: { port: number }) => `plant-store-balancer-${port}`

/** Starts a program, and returns where when it responds; ends it at teardown. `prepare` returns its files and its arguments. */
async function startProgram(
  t: Test,
  command: string,
  prepare: (place: Place) => { files: Record<string, string>; args: string[] }
) {
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-balancer-'))
  await chmod(directory, 0o755) // for a balancer that gives up the rights of root
  const place = { directory, port: await freePort(), otherPort: await freePort() }
  const { files, args } = prepare(place)
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaints += text))
  const ended = once(child, 'exit')
  t.teardown(async () => {
    if (command === 'docker')
      spawn('docker', ['rm', '--force', container(place)], { stdio: 'ignore' })
    else child.kill('SIGTERM')
    await ended
    await rm(directory, { recursive: true, force: true })
  })
  const fails = ended.then(() => {
    throw new Error(complaints)
  })
  const url = `http://127.0.0.1:${place.port}`
  await Promise.race([until(`${command} responds`, () => fetch(url)), fails])
  return { ...place, url }
}

function startHaproxy(t: Test, ports: number[]): Promise<Balancer> {
  return startProgram(t, 'docker', ({ directory, port, otherPort }) => ({
    files: { 'haproxy.cfg': haproxyConfig(ports) },
    args: [
      ...['run', '--rm', '--network=host', `--name=${container({ port })}`],
      ...haproxyContainer({ directory, port, metricsPort: otherPort })
    ]
  }))
}

const { key, cert, ca } = (() => {
  const authority = createCertificate('plants authority')
  return { ...createCertificate('plants.test', authority), ca: authority.cert }
})()
/** What a client needs for the certificate of `tlsUrl`. */
export const tls = { servername: 'plants.test', ca }

async function startNginx(t: Test, [first, second]: number[]): Promise<Balancer> {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${name};`
  )
  const { url, otherPort, directory } = await startProgram(
    t,
    'nginx',
    ({ directory, port, otherPort }) => ({
      files: {
        'plant-store.pem': `${cert}${key}`,
        config: read('nginx/nginx.conf')
          .replace('http {\n', `http {\n  access_log off;\n  ${temporary.join(' ')}\n`)
          .replace('127.0.0.1:3000', `127.0.0.1:${port}`)
          .replace('127.0.0.1:3443', `127.0.0.1:${otherPort}`)
          .replaceAll('/etc/nginx/plant-store.pem', `${directory}/plant-store.pem`)
          .replaceAll('/run/plant-store', directory)
          .replaceAll('3001', String(first))
          .replaceAll('3002', String(second))
      },
      args: [
        ...['-p', `${directory}/`, '-c', 'config', '-e', 'stderr'],
        ...['-g', 'daemon off; pid nginx.pid; error_log stderr crit;']
      ]
    })
  )
  const away = (port: number) => join(directory, `${port}.away`)
  return {
    url,
    tlsUrl: `https://127.0.0.1:${otherPort}`,
    leave: (port) => writeFile(away(port), ''),
    comeBack: (port) => rm(away(port))
  }
}

/** How each is started over the ports of two instances. */
export const balancers: Record<
  string,
  { command: string; start(t: Test, ports: number[]): Promise<Balancer> }
> = {
  HAProxy: { command: 'docker', start: startHaproxy },
  nginx: { command: 'nginx', start: startNginx }
}
