/**
 * How a database URL is read: what each part becomes, and what is refused, in a fault that holds no
 * part of the password.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { parseDatabaseUrl } from '../src/database/url.ts'
import { StartupFault } from '../src/startup-fault.ts'
import { type Certificate, createCertificate } from './support/postgres/certificates.ts'

const [authority, own, plus] = ['authority', 'own', 'plus'].map((name) =>
  createCertificate(name)
) as [Certificate, Certificate, Certificate]
const directory = t.testdir({
  'ca.pem': `A comment\n${authority.cert}${plus.cert}`,
  'own.pem': own.cert,
  'own.key': own.key,
  'a+b.pem': plus.cert,
  'empty.pem': '',
  'cut.pem': authority.cert + plus.cert.slice(0, 200),
  'secret.pem': 'thyme',
  'cut.key': own.key.slice(0, 100),
  'other.key': plus.key,
  directory: {},
  loop: t.fixture('symlink', 'loop'),
  device: t.fixture('symlink', '/dev/zero')
})
const file = (name: string) => join(directory, name)
// Without a writer, to open it blocks the process.
execFileSync('mkfifo', [file('pipe')])
const ca = `sslrootcert=${file('ca.pem')}`
const client = `sslcert=${file('own.pem')}&sslkey=${file('own.key')}`
/** A URL with these parameters. */
const by = (query: string) => `postgres://gardener:thyme@db.test:5433/plants?${query}`
const basics = {
  user: 'gardener',
  password: 'thyme',
  host: 'db.test',
  port: 5433,
  database: 'plants'
}
const verified = {
  rejectUnauthorized: true,
  ca: /A comment[\s\S]*-----END/,
  checkServerIdentity: undefined
}
const anyName = { ...verified, checkServerIdentity: Function }

const read: [url: string, options: object][] = [
  ['postgres://gardener:thyme@db.test:5433/plants', basics],
  [' postgres://gardener:thyme@db.test:5433/plants\n', basics],
  [
    'postgresql://db.test/other',
    { user: '', password: '', host: 'db.test', port: 5432, database: 'other' }
  ],
  [
    'postgres://gardener:th,y@m:e%25%2F@[::1]:7/a%20b',
    { password: 'th,y@m:e%/', host: '::1', port: 7 }
  ],
  ['postgres://db.test/a%20b', { database: 'a b' }],
  ['postgres://gardener:thyme@/plants?host=/run/pg', { ...basics, host: '/run/pg', port: 5432 }],
  ['postgres://a:b%26@/plants?host=/run/pg&port=7', { port: 7, user: 'a', password: 'b&' }],
  ['postgres://a@%2Frun%2Fpg/plants', { host: '/run/pg', port: 5432, database: 'plants' }],
  ['postgres:///plants?host=other.test&port=7', { host: 'other.test', port: 7 }],
  [
    by('application_name=a+b&options=-c%20x.y%3D1'),
    { application_name: 'a+b', options: '-c x.y=1' }
  ],
  [by('connect_timeout=3'), { connectionTimeoutMillis: 3_000, application_name: 'plant-store' }],
  [
    'postgres://gardener:th,y@me@a:1,b,[::1]:3/plants?target_session_attrs=read-write',
    {
      password: 'th,y@me',
      hosts: [
        { host: 'a', port: 1 },
        { host: 'b', port: 5432 },
        { host: '::1', port: 3 }
      ]
    }
  ],
  [by('target_session_attrs=primary'), {}],
  [by('target_session_attrs=any'), { hosts: [{ host: 'db.test', port: 5433 }] }],
  // TLS.
  [by(''), { tls: undefined }],
  [by('sslmode=disable'), { tls: undefined }],
  [by(`sslmode=disable&${ca}`), { tls: undefined }],
  [by('sslmode=require'), { tls: { rejectUnauthorized: false } }],
  [
    by('sslmode=verify-full'),
    { tls: { rejectUnauthorized: true, checkServerIdentity: undefined } }
  ],
  [by(`sslmode=verify-full&${ca}`), { tls: verified }],
  [by(ca), { tls: verified }],
  [by(`sslmode=require&${ca}`), { tls: anyName }],
  [by(`sslmode=verify-ca&${ca}`), { tls: anyName }],
  [by(`sslrootcert=${file('a+b.pem')}`), { tls: { ca: plus.cert } }],
  [by(client), { tls: { rejectUnauthorized: true, cert: own.cert, key: own.key } }],
  [by('channel_binding=prefer'), { enableChannelBinding: true }],
  [by('channel_binding=disable'), { enableChannelBinding: false }]
]

for (const [url, options] of read)
  t.test(`${url.replaceAll(directory, '')} is read`, async (t) => {
    const found = parseDatabaseUrl(url)
    t.match({ ...found, ...found.hosts[0], tls: found.readTls() }, options)
  })

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const twice = 'must not set host or port beside a host before the path'
const escapes = 'must write %, @, /, ?, # and & within its user, password and values as'

/** URLs that are refused, and what the fault names. */
const refused: [named: string, ...urls: string[]][] = [
  [form, 'thyme', 'mysql://gardener:thyme@db.test/plants', 'postgres:gardener:thyme@db.test'],
  [form, 'postgres://gardener@thyme[x/plants', 'postgres://a,:5432/plants'],
  [form, 'postgres://a,b c/plants'],
  [form, 'postgres://db.test:99999/plants', 'postgres://a,b:65536/plants'],
  [form, 'postgres://gardener:thyme@x:y/plants', 'postgres://gardener:thyme/plants'],
  [form, 'postgres://db.test:0/plants', 'postgres:///plants?host=/run/pg&port=65536'],
  ['must set port to an integer from 1 to 65535', by('port=thyme')],
  [form, 'postgres://gardener:thyme%E9@db.test/plants'],
  [escapes, 'postgres://gardener:50%@db.test/plants', by('options=50%')],
  [escapes, 'postgres://gardener%0041:thyme@db.test/plants'],
  [form, 'postgres:///plants', 'postgres://gardener:thyme@/plants'],
  [form, 'postgres://a,/plants', 'postgres://,a/plants', 'postgres://a,,b/plants'],
  [
    twice,
    'postgres://a,b/plants?port=1',
    'postgres://gardener@a,b/plants?host=c',
    by('host=other.test')
  ],
  [
    twice,
    'postgres://gardener:1234/plants?host=/run/pg',
    'postgres://gardener:thyme/plants?host=/run/pg'
  ],
  // What follows the password is none of the host, the database or a parameter.
  [
    escapes,
    'postgres://gardener:th@yme/x@db.test/plants',
    'postgres://gardener:th/yme@db.test/plants'
  ],
  [
    escapes,
    'postgres://gardener:th@yme#x@db.test/plants',
    'postgres://gardener:12?thyme@db.test/plants'
  ],
  [escapes, 'postgres://gardener:th@yme?x@db.test/plants'],
  ...[
    'ssl',
    'tls',
    'sslmod',
    'sslMode',
    'ssl-mode',
    'ssl_mode',
    'sslrootcerts',
    'channelbinding'
  ].map((name): [string, string] => [`has the unknown parameter ${name}`, by(`${name}=require`)]),
  ...['user', 'password'].map((name): [string, string] => [
    `the unknown parameter ${name};`,
    by(`${name}=thyme`)
  ]),
  ...['query_timeout', 'target_session', 'load_balance_hosts', '__proto__', 'xyz'].map(
    (name): [string, string] => [`has the unknown parameter ${name}`, by(`${name}=1`)]
  ),
  ['sslmode', ...['prefer', 'allow', 'no-verify', ''].map((mode) => by(`sslmode=${mode}`))],
  ['must not set sslmode twice', by('sslmode=verify-full&sslmode=disable')],
  ['must set sslrootcert for sslmode=verify-ca', by('sslmode=verify-ca')],
  ['must set sslrootcert to a file', by('sslmode=verify-ca&sslrootcert=')],
  ['must set sslrootcert to a file; without it', by('sslmode=verify-full&sslrootcert=system')],
  ['must set both sslcert and sslkey', by(`sslcert=${file('own.pem')}`)],
  ["'/absent/ca.pem'", by('sslmode=verify-full&sslrootcert=/absent/ca.pem')],
  ...['empty.pem', 'cut.pem', 'secret.pem', 'own.key'].flatMap((name): [string, string][] => [
    [`cannot be read: '${file(name)}' has no valid certificate`, by(`sslrootcert=${file(name)}`)],
    [
      `'${file(name)}' has no valid certificate`,
      by(`sslcert=${file(name)}&sslkey=${file('own.key')}`)
    ]
  ]),
  ...['empty.pem', 'cut.key', 'secret.pem', 'own.pem'].map((name): [string, string] => [
    `cannot be read: '${file(name)}' has no valid key`,
    by(`sslcert=${file('own.pem')}&sslkey=${file(name)}`)
  ]),
  ...['directory', 'pipe', 'device'].map((name): [string, ...string[]] => [
    `cannot be read: '${file(name)}' is not a regular file`,
    by(`sslrootcert=${file(name)}`),
    by(`sslcert=${file(name)}&sslkey=${file('own.key')}`),
    by(`sslcert=${file('own.pem')}&sslkey=${file(name)}`)
  ]),
  [`symbolic links encountered, stat '${file('loop')}'`, by(`sslrootcert=${file('loop')}`)],
  [
    `'${file('other.key')}' is not the key of '${file('own.pem')}'`,
    by(`sslcert=${file('own.pem')}&sslkey=${file('other.key')}`)
  ],
  [
    'must set channel_binding to prefer, and sslmode to verify-full',
    ...['channel_binding=yes', 'sslmode=require&channel_binding=require'].map(by)
  ],
  [
    'must set target_session_attrs to one of any, read-write, primary',
    by('target_session_attrs=standby')
  ],
  ['must set target_session_attrs to read-write', 'postgres://a,b/plants?target_session_attrs=any'],
  ['must set connect_timeout to an integer', by('connect_timeout=soon')],
  ['must set host to a name', by('host=b,c')]
]

for (const [named, ...urls] of refused)
  for (const url of urls)
    t.test(
      `${url.replaceAll(directory, '')} is refused: ${named.replaceAll(directory, '')}`,
      async (t) => {
        try {
          t.fail(`it is read as ${JSON.stringify(parseDatabaseUrl(url))}`)
        } catch (error) {
          if (!(error instanceof StartupFault)) throw error
          t.equal(error.faults.length, 1)
          t.ok(error.message.includes(named), error.message)
          t.notMatch(error.message, /thy|yme|\n/)
        }
      }
    )
