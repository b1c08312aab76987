/** Balancers in front of instances of the service, each with the configuration that this repository ships or documents. */
import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createAuthority, createCertificate } from '../../support/postgres/certificates.ts'
import { startHaproxy } from './haproxy.ts'
import { type Place, startProgram } from './program.ts'

/** A balancer that runs. */
export interface Balancer {
  url: string
  /** Where it speaks TLS. */
  tlsUrl?: string
  /** Takes the instance at a port out of use before it ends, and back once it serves, where checks do not. */
  leave?(port: number): Promise<void>
  comeBack?(port: number): Promise<void>
}

const root = join(import.meta.dirname, '../..')
const [, others = ''] = readFileSync(join(root, 'docs/balancers.md'), 'utf8').split('\n## Others\n')
const example = readFileSync(join(root, 'ops/nginx/nginx.conf'), 'utf8')

const authority = createAuthority('plants authority')
const { key, cert } = createCertificate('plants.test', authority)
/** What a client needs for the certificate of `tlsUrl`. */
export const tls = { servername: 'plants.test', ca: authority.cert }

/** The lines that the manual has for a balancer, over these instances. */
const linesOf = (title: string, [first, second]: number[]) =>
  (new RegExp(`\\*\\*${title}\\*\\*[^]*?\\n\\n((?: {4}.*\\n)+)`).exec(others)?.[1] ?? '')
    .replaceAll(/^ {4}/gm, '')
    .replaceAll('3001', String(first))
    .replaceAll('3002', String(second))

const modules = [
  ...['mpm_event', 'authz_core', 'slotmem_shm'],
  ...['proxy', 'proxy_http', 'proxy_balancer', 'lbmethod_byrequests', 'proxy_hcheck']
]

/** What the manual's lines need around them to run here, and the arguments for that file. */
const documented: Record<string, (lines: string, place: Place, file: string) => [string, string[]]> = {
  Caddy: (lines, { port }, file) => [
    `{\n  admin off\n  auto_https off\n  default_bind 127.0.0.1\n}\n${lines.replace(':3000', `:${port}`)}`,
    ['run', '--adapter', 'caddyfile', '--config', file]
  ],
  Apache: (lines, { port, directory }, file) => [
    [
      ...modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`),
      `ServerRoot ${directory}\nDefaultRuntimeDir ${directory}\nPidFile ${directory}/pid\nErrorLog ${directory}/log`,
      `Listen 127.0.0.1:${port}\nServerName plants.test\nUser www-data\nGroup www-data\n${lines}`
    ].join('\n'),
    ['-D', 'FOREGROUND', '-f', file]
  ],
  Varnish: (lines, { port, directory }, file) => [
    lines,
    [
      ...['-F', '-j', 'none', '-n', join(directory, 'work'), '-s', 'malloc,16m'],
      ...['-a', `127.0.0.1:${port}`, '-f', file]
    ]
  ]
}

const startDocumented = (title: string, command: string) => (t: Test, ports: number[]) =>
  startProgram(t, command, (place) => {
    const file = join(place.directory, 'config')
    const [config = '', args = []] = documented[title]?.(linesOf(title, ports), place, file) ?? []
    return { files: { config }, args }
  })

const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
  (name) => `${name}_temp_path ${name};`
)

async function startNginx(t: Test, [first, second]: number[]): Promise<Balancer> {
  const { url, otherPort, directory } = await startProgram(t, 'nginx', ({ directory, port, otherPort }) => ({
    files: {
      'plant-store.pem': `${cert}${key}`,
      config: example
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
  }))
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
  HAProxy: { command: 'haproxy', start: startHaproxy },
  nginx: { command: 'nginx', start: startNginx },
  Caddy: { command: 'caddy', start: startDocumented('Caddy', 'caddy') },
  Apache: { command: 'apache2', start: startDocumented('Apache', 'apache2') },
  Varnish: { command: 'varnishd', start: startDocumented('Varnish', 'varnishd') }
}
