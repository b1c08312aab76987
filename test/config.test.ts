/**
 * The settings: each bad value gives a line, and a good value gives none. promises/settings.test.ts
 * has what a process says about them.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readConfig } from '../src/config.ts'
import type { StartupFault } from '../src/startup-fault.ts'
import { root } from './support/process.ts'
import { token } from './support/service.ts'

const required = {
  DATABASE_URL: 'postgres://gardener@127.0.0.1:1/plants',
  AUTH_TOKENS: `shop:${token}`
}

const address = 'an IP address such as 127.0.0.1 or ::1'
const visible = 'up to 2000 visible ASCII characters'
const positive = 'an integer from 1 to 2147483647'

/** Each setting: values that are refused, its rule, and values that are accepted. */
const settings: [name: string, refused: string[], rule: string, taken: string[]][] = [
  ['HOST', ['localhost', '127.1', '[::1]', '127.0.0.1:80'], address, ['', '::1', '10.1.2.3']],
  [
    'METRICS_HOST',
    ['plants.test', '999.1.1.1', 'fe80::1%eth0'],
    address,
    ['::', '2001:db8::1', '']
  ],
  ['PORT', ['-1', '65536', '1e3', 'http'], 'an integer from 0 to 65535', ['0', '65535', '']],
  ['METRICS_PORT', ['on', '65536', 'OFF', '0x50'], 'an integer from 0 to 65535', ['65535', '0']],
  [
    'BASE_PATH',
    ['v1', '/v1/', '//v1', '/:id'],
    'empty or a path such as /v1, not /v1/',
    ['', '/v1', '/~me/_x-1.2']
  ],
  ['DOCS', ['true', 'ON', '0'], 'on or off', ['on', 'off', '']],
  [
    'AUTH_JWT_ISSUER',
    ['a b', 'blümchen'],
    visible,
    ['https://issuer.test', 'kubernetes/serviceaccount']
  ],
  ['AUTH_JWT_AUDIENCE', ['a b', 'a'.repeat(2_001)], visible, ['plants', 'https://plants.test']],
  ['AUTH_JWT_CALLER', ['a b', '\t'], visible, ['', 'azp', 'https://plants.test/client']],
  [
    'AUTH_JWT_KEYS_URL',
    [
      'http://issuer.test/keys',
      'issuer.test',
      'file:///keys',
      'https://u:p@issuer.test/',
      'http://127.1.evil.test/'
    ],
    'an https URL (http only for this machine)',
    [
      'https://issuer.test/keys?p=a',
      'http://127.0.0.1:1/',
      'http://localhost/',
      'http://[::1]:1/keys'
    ]
  ],
  [
    'LOG_LEVEL',
    ['verbose', 'INFO'],
    'fatal, error, warn, info, debug, trace or silent',
    ['silent', 'trace']
  ],
  [
    'RATE_LIMIT',
    ['-1', '1000001', '10/s', '0.5'],
    'an integer from 0 to 1000000',
    ['0', '1000000']
  ],
  [
    'BODY_LIMIT_BYTES',
    ['0', '268435457', '1mb', ' 1'],
    'an integer from 1 to 268435456',
    ['1', '268435456']
  ],
  ['MAX_CONNECTIONS', ['0', '1000001', 'all'], 'an integer from 1 to 1000000', ['1', '1000000']],
  ['REQUEST_TIMEOUT_MS', ['0', '2147483648', '1s'], positive, ['1', '2147483647']],
  ['STARTUP_TIMEOUT_MS', ['0', '2147483648', '30s'], positive, ['1', '2147483647']],
  [
    'SHUTDOWN_DELAY_MS',
    ['-1', '2147483648', '1s'],
    'an integer from 0 to 2147483647',
    ['0', '5000']
  ],
  ['WRITE_DEADLINE_MS', ['0', '2147483648', '1s'], positive, ['1', '10000']],
  ['WRITE_LANES', ['0', '1001', '1.5'], 'an integer from 1 to 1000', ['1', '1000']],
  ['WRITE_QUEUE_ROWS', ['0', '1000001', 'many'], 'an integer from 1 to 1000000', ['1', '1000000']],
  // These variables of libpq change how a session is opened, which only the URL may say.
  ...[
    'PGSSLMODE',
    'PGSSLROOTCERT',
    'PGCHANNELBINDING',
    'PGGSSENCMODE',
    'PGREPLICATION',
    'PGHOSTADDR'
  ].map((name): [string, string[], string, string[]] => [
    name,
    ['require', 'verify-full'],
    '',
    ['', 'disable']
  ])
]
const ruleOf = (name: string, rule: string) =>
  name.startsWith('PG')
    ? `${name} is not read: unset it, and write what it asks for into DATABASE_URL`
    : `${name} must be ${rule}`

/**
 * The largest number of values that a setting has. Each turn tries one value of each setting, and
 * two turns try each value once as a bad one and once as a good one.
 */
const most = Math.max(...settings.flatMap(([, refused, , taken]) => [refused.length, taken.length]))

/** Returns the lines that say what is wrong with an environment. */
function faultsOf(env: Record<string, string>): string[] {
  try {
    readConfig({ ...required, ...env })
    return []
  } catch (error) {
    return [...(error as StartupFault).faults]
  }
}

// All bad settings are reported at once. In each turn, every other setting is bad, and the rest are
// good.
for (const turn of Array(2 * most).keys())
  t.test(`bad settings are a line each, and good ones none (${turn})`, async (t) => {
    const isBad = (index: number) => (index + turn) % 2 === 0
    const given = settings.map(([name, refused, , taken], index) => {
      const values = isBad(index) ? refused : taken
      return [name, values[(turn >> 1) % values.length]]
    })
    const faults = settings.flatMap(([name, , rule], index) =>
      isBad(index) ? ruleOf(name, rule) : []
    )
    t.strictSame(faultsOf(Object.fromEntries(given)).sort(), faults.sort())
  })

t.test('the table has each setting', async (t) => {
  const config = readFileSync(join(root, 'src/config.ts'), 'utf8')
  const names = [...config.matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name)
  const inTable = settings.map(([name]) => name).filter((name) => !name.startsWith('PG'))
  t.strictSame(inTable.sort(), names.sort())
})
