/** Database URLs: what each part becomes, and the line for each that is refused, which holds no part of the password. */
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import t from 'tap'
import { type DatabaseOptions, parseDatabaseUrl, urlParameters } from '../../src/database/url.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'

const pem = '-----BEGIN '
const directory = t.testdir({
  'ca.pem': `${pem}authority`,
  'own.pem': `${pem}own`,
  'own.key': `${pem}key`,
  'a+b.pem': `${pem}plus`,
  'empty.pem': ''
})
const file = (name: string) => join(directory, name)
const ca = `sslrootcert=${file('ca.pem')}`
const client = `sslcert=${file('own.pem')}&sslkey=${file('own.key')}`
/** A URL with this query. */
const withQuery = (query: string) => `postgres://gardener:thyme@db.test:5433/plants?${query}`
const basics = { user: 'gardener', password: 'thyme', host: 'db.test', port: 5433, database: 'plants' }

const read: [url: string, options: object][] = [
  ['postgres://gardener:thyme@db.test:5433/plants', basics],
  [' postgres://gardener:thyme@db.test:5433/plants\n', basics],
  ['postgresql://db.test/other', { user: '', password: '', host: 'db.test', port: 5432, database: 'other' }],
  [
    'postgres://gardener:th,y@m:e%25%2F@[::1]:7/a%20b',
    { password: 'th,y@m:e%/', host: '::1', port: 7, database: 'a b' }
  ],
  ['postgres://gardener:thyme@/plants?host=/run/pg', { ...basics, host: '/run/pg', port: 5432 }],
  [
    'postgres:///plants?host=/run/pg&port=7&user=a&password=b%26',
    { user: 'a', password: 'b&', host: '/run/pg', port: 7 }
  ],
  ['postgres://[fe80::1%25eth0]/plants', { host: 'fe80::1%eth0' }],
  ['postgres://a@%2Frun%2Fpg/plants', { host: '/run/pg', port: 5432, database: 'plants' }],
  [withQuery('host=other.test&port=7'), { host: 'other.test', port: 7 }],
  [withQuery('application_name=a+b&options=-c%20x.y%3D1'), { application_name: 'a+b', options: '-c x.y=1' }],
  [withQuery('connect_timeout=3'), { connectTimeoutMs: 3_000, application_name: 'plant-store' }],
  [
    withQuery(
      'load_balance_hosts=disable&gssencmode=disable&keepalives=1&client_encoding=UTF8&uselibpqcompat=true'
    ),
    basics
  ],
  [
    'postgres://gardener:th,y@me@a:1,b,[::1]:3/plants?target_session_attrs=read-write',
    {
      password: 'th,y@me',
      target_session_attrs: 'read-write',
      hosts: [
        { host: 'a', port: 1 },
        { host: 'b', port: 5432 },
        { host: '::1', port: 3 }
      ]
    }
  ],
  ['postgres://a,b/plants', { target_session_attrs: 'read-write' }],
  [withQuery('target_session_attrs=any'), { target_session_attrs: 'any', hosts: undefined }],
  // TLS, and whether a host beyond this machine is reached without it and without a word.
  [withQuery(''), { ssl: false, exposedHost: 'db.test' }],
  [withQuery('sslmode=disable'), { ssl: false, exposedHost: undefined }],
  [withQuery(`sslmode=disable&${ca}`), { ssl: false }],
  ['postgres://127.0.0.9,localhost,[::1],10.1.2.3/plants', { exposedHost: '10.1.2.3' }],
  ['postgres://LOCALHOST/plants', { exposedHost: undefined }],
  ['postgres://127.example.test/plants', { exposedHost: '127.example.test' }],
  ['postgres:///plants?host=/run/pg', { exposedHost: undefined }],
  [withQuery('sslmode=require'), { ssl: { rejectUnauthorized: false }, exposedHost: undefined }],
  [withQuery('sslmode=verify-full'), { ssl: { rejectUnauthorized: true, checkServerIdentity: undefined } }],
  [
    withQuery(`sslmode=verify-full&${ca}`),
    { ssl: { rejectUnauthorized: true, ca: `${pem}authority`, checkServerIdentity: undefined } }
  ],
  [
    withQuery(`sslmode=require&${ca}`),
    { ssl: { rejectUnauthorized: true, ca: `${pem}authority`, checkServerIdentity: Function } }
  ],
  [
    withQuery(`sslmode=verify-ca&${ca}`),
    { ssl: { rejectUnauthorized: true, ca: `${pem}authority`, checkServerIdentity: Function } }
  ],
  [
    withQuery(ca),
    { ssl: { rejectUnauthorized: true, ca: `${pem}authority`, checkServerIdentity: undefined } }
  ],
  [withQuery(`sslrootcert=${file('a+b.pem')}`), { ssl: { ca: `${pem}plus` } }],
  [withQuery('sslrootcert=system'), { ssl: { rejectUnauthorized: true, ca: getCACertificates('system') } }],
  [withQuery(client), { ssl: { rejectUnauthorized: true, cert: `${pem}own`, key: `${pem}key` } }],
  [
    withQuery('sslmode=require&channel_binding=require'),
    { enableChannelBinding: true, requiresChannelBinding: true }
  ],
  [withQuery('channel_binding=prefer'), { enableChannelBinding: true, requiresChannelBinding: false }],
  [withQuery('channel_binding=disable'), { enableChannelBinding: false, requiresChannelBinding: false }]
]

for (const [url, options] of read)
  t.test(`${url.replaceAll(directory, '')} is read`, async (t) => {
    t.match(parseDatabaseUrl(url), options)
  })

t.test('require and verify-ca accept any host name', async (t) => {
  for (const mode of ['require', 'verify-ca']) {
    const { ssl } = parseDatabaseUrl(withQuery(`sslmode=${mode}&${ca}`)) as { ssl: DatabaseOptions['ssl'] }
    t.equal((ssl as { checkServerIdentity(): unknown }).checkServerIdentity(), undefined)
  }
})

const form = 'must be a URL such as postgres://user:password@host:5432/database'
const port = 'must set port to an integer from 1 to 65535'
const percent = 'must write % as %25, and other characters as the bytes of UTF-8'
const listForm = 'must list its hosts before the path, such as host1:5432,host2:5432'
const escapes =
  'must write @, /, ?, # and & within its user, password and values as %40, %2F, %3F, %23 and %26'
const noHost = 'must name a host, such as db:5432, or ?host= with the directory of a Unix socket'
const modes = 'must set sslmode to one of disable, require, verify-ca, verify-full'
const unknown = (name: string, nearest = 'sslmode') =>
  `has the unknown parameter ${name}; the nearest known one is ${nearest}`

const refused: [url: string, fault: string][] = [
  ['thyme', form],
  ['mysql://gardener:thyme@db.test/plants', form],
  ['postgres:gardener:thyme@db.test', form],
  ['postgres://gardener:thyme@db.test:99999/plants', port],
  ['postgres://gardener:thyme@db.test:0/plants', port],
  ['postgres://gardener:thyme@db.test/plants?port=65536', port],
  ['postgres://gardener:thyme%E9@db.test/plants', percent],
  ['postgres://gardener:50%@db.test/plants', percent],
  ['postgres://gardener%0041:thyme@db.test/plants', 'must not contain %00'],
  ['postgres://a,b:65536/plants', port],
  ['postgres://a:x,b/plants', port],
  ['postgres://gardener@thyme[x/plants?host=/run/pg', form],
  ['postgres://gardener:thyme@x:y/plants?host=/run/pg&port=7', port],
  ['postgres://gardener:1234/plants?host=/run/pg', 'must have @ after user and password'],
  ['postgres://a,:5432/plants', form],
  ['postgres://a,b c/plants', form],
  ['postgres:///plants', noHost],
  ['postgres://gardener:thyme@/plants', noHost],
  ['postgres://a,/plants', listForm],
  ['postgres://,a/plants', listForm],
  ['postgres://a,,b/plants', listForm],
  ['postgres://a,b/plants?port=1', listForm],
  ['postgres://gardener@a,b/plants?host=c', listForm],
  ['postgres://a,b/plants?target_session_attrs=any', 'must set target_session_attrs to read-write'],
  // What follows the password is none of the host, the database or a parameter.
  ['postgres://gardener:th@yme/x@db.test/plants', escapes],
  ['postgres://gardener:th@yme#x@db.test/plants', escapes],
  ['postgres://gardener:th@yme?x@db.test/plants', escapes],
  ['postgres://gardener:th/yme@db.test/plants', escapes],
  ['postgres://gardener:12?thyme@db.test/plants', escapes],
  [withQuery('password=thy&me'), escapes],
  [withQuery('password=thy&me=x'), escapes],
  [withQuery('ssl=require'), unknown('ssl')],
  [withQuery('ssl=true'), unknown('ssl')],
  [withQuery('ssl=no-verify'), unknown('ssl')],
  [withQuery('tls=true'), unknown('tls')],
  [withQuery('sslmod=require'), unknown('sslmod')],
  [withQuery('sslMode=require'), unknown('sslMode')],
  [withQuery('ssl-mode=REQUIRED'), unknown('ssl-mode')],
  [withQuery('ssl_mode=verify-full'), unknown('ssl_mode')],
  [withQuery('sslrootcerts=x'), unknown('sslrootcerts', 'sslrootcert')],
  [withQuery('channelbinding=require'), unknown('channelbinding', 'channel_binding')],
  [withQuery('query_timeout=1'), unknown('query_timeout', 'connect_timeout')],
  [withQuery('target_session=any'), unknown('target_session', 'target_session_attrs')],
  ...['__proto__', 'xyz', 'statement_cache'].map((name): [string, string] => [
    withQuery(`${name}=x`),
    `has the unknown parameter ${name}; docs/configuration.md lists the known ones`
  ]),
  ...['sslmode=require', 'sslrootcert=system'].map((query): [string, string] => [
    `postgres:///plants?host=/run/pg&${query}`,
    'must set sslmode to disable or not at all for a Unix socket, which is never encrypted'
  ]),
  ...['sslmode=prefer', 'sslmode=allow', 'sslmode=no-verify', 'sslmode='].map((query): [string, string] => [
    withQuery(query),
    modes
  ]),
  [withQuery('sslmode=verify-full&sslmode=disable'), 'must not set sslmode twice'],
  [withQuery('sslmode=verify-ca'), 'must set sslrootcert for sslmode=verify-ca'],
  [withQuery('sslmode=verify-ca&sslrootcert='), 'must set sslrootcert to a file, or system'],
  [withQuery('sslmode=require&sslrootcert=system'), 'must set sslmode to verify-full for sslrootcert=system'],
  [withQuery(`sslcert=${file('own.pem')}`), 'must set both sslcert and sslkey, or neither'],
  [
    withQuery('sslmode=verify-full&sslrootcert=/absent/ca.pem'),
    "names a file that cannot be read: ENOENT: no such file or directory, open '/absent/ca.pem'"
  ],
  [
    withQuery(`sslrootcert=${file('empty.pem')}`),
    `names a file that cannot be read: no PEM, open '${file('empty.pem')}'`
  ],
  [withQuery('channel_binding=require'), 'must set an sslmode for channel_binding=require'],
  [withQuery('sslmode=disable&channel_binding=require'), 'must set an sslmode for channel_binding=require'],
  [withQuery('channel_binding=yes'), 'must set channel_binding to one of disable, prefer, require'],
  [withQuery('target_session_attrs=standby'), 'must set target_session_attrs to one of any, read-write'],
  [withQuery('load_balance_hosts=random'), 'must set load_balance_hosts to disable'],
  [withQuery('gssencmode=require'), 'must set gssencmode to disable'],
  [withQuery('client_encoding=LATIN1'), 'must set client_encoding to one of UTF8, utf8'],
  [withQuery('connect_timeout=soon'), 'must set connect_timeout to an integer from 0 to 999999'],
  [withQuery('port=thyme'), 'must set port to an integer from 1 to 65535'],
  [withQuery('host=b,c'), 'must set host to a name, an address, or the directory of a Unix socket']
]

for (const [url, fault] of refused)
  t.test(`${url.replaceAll(directory, '')} is reported in one line, with its rule`, async (t) => {
    t.throws(() => parseDatabaseUrl(url), new StartupFault([fault]))
  })

t.test('whatever is misspelled, the nearest parameter is named, and each is near to itself', async (t) => {
  for (const name of Object.keys(urlParameters))
    t.throws(() => parseDatabaseUrl(withQuery(`${name}s=1`)), new StartupFault([unknown(`${name}s`, name)]))
})
