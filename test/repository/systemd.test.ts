/** The units for systemd: systemd understands all of them, and they leave the service the time and the files that it needs. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { token } from '../../harness/service/service.ts'
import { readConfig } from '../../src/config/config.ts'

const path = join(import.meta.dirname, '../../ops/systemd/plant-store@.service')
const unit = readFileSync(path, 'utf8')
const settingOf = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
const skip = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not on the PATH'

t.test('systemd understands each line', { skip }, async (t) => {
  const file = join(t.testdir({ 'plant-store@3001.service': unit }), 'plant-store@3001.service')
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], {
    encoding: 'utf8'
  })
  // Of what it cannot read it only warns.
  t.strictSame({ status, stdout, stderr }, { status: 0, stdout: '', stderr: '' })
})

t.test('the backup of each night runs the existing script, as the timer says', { skip }, async (t) => {
  const units = ['plant-store-backup.service', 'plant-store-backup.timer']
  const script = join(import.meta.dirname, '../../ops/nightly-backup')
  const directory = t.testdir(
    Object.fromEntries(
      units.map((unit) => [
        unit,
        readFileSync(join(path, '..', unit), 'utf8').replace('/opt/plant-store/ops/nightly-backup', script)
      ])
    )
  )
  t.match(readFileSync(join(directory, units[0] as string), 'utf8'), `ExecStart=${script}\n`)
  const files = units.map((unit) => join(directory, unit))
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], {
    encoding: 'utf8'
  })
  // Docker may have no unit here.
  const faults = stderr.split('\n').filter((line) => line !== '' && !line.includes('docker.service'))
  t.strictSame(faults, [])
  if (!stderr.includes('docker.service')) t.equal(status, 0)
})

t.test('it starts what npm starts, and has room for the default settings', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(path, '../../../package.json'), 'utf8'))
  t.equal(settingOf('ExecStart'), `/bin/sh -c '${scripts.start.replace('--env-file-if-exists=.env ', '')}'`)
  t.equal(settingOf('ExecReload'), '/bin/kill -HUP $MAINPID')
  const { MAX_CONNECTIONS: maxConnections, SHUTDOWN_TIMEOUT_MS: shutdownTimeoutMs } = readConfig({
    DATABASE_URL: 'postgres://plants@db.test/plants',
    AUTH_TOKENS: `tester:${token}`
  })
  t.ok(Number(settingOf('LimitNOFILE')) >= maxConnections + 1_100)
  t.ok(Number.parseInt(settingOf('TimeoutStopSec'), 10) * 1_000 > shutdownTimeoutMs)
  t.equal(settingOf('LogRateLimitIntervalSec'), '0')
})

t.test('nginx leaves a replica alone while the file is there that its unit makes', async (t) => {
  const nginx = readFileSync(join(path, '../../nginx/nginx.conf'), 'utf8')
  t.equal(settingOf('RuntimeDirectory'), 'plant-store')
  t.match(settingOf('ExecStartPost'), /; rm -f %t\/plant-store\/%i\.away'$/)
  t.equal(settingOf('ExecStop'), '/usr/bin/touch %t/plant-store/%i.away')
  for (const port of ['3001', '3002'])
    t.match(nginx, `if (-e /run/plant-store/${port}.away) { set $replicas without-${port}; }`)
})

t.test('a replica that cannot start is not started for ever', async (t) => {
  const cwd = t.testdir({ 'package.json': JSON.stringify({ engines: { node: '>=99' } }) })
  const command = /^\/bin\/sh -c '(.*)'$/.exec(settingOf('ExecStart'))?.[1] ?? ''
  const script = join(path, '../../check-node.mjs')
  const { status } = spawnSync('sh', ['-c', command.replace('ops/check-node.mjs', script)], { cwd })
  t.equal(status, Number(settingOf('RestartPreventExitStatus')))
})
