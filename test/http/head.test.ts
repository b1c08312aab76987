/** The rules for a request's header, one call a case; test/http/protocol.test.ts has them on raw sockets. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import t from 'tap'
import { checkHead } from '../../src/http/head.ts'
import { awaits100, isFramingFaulty } from '../../src/shared/framing.ts'

/** A request with these header fields, of which Node keeps the first; `host` is there unless it is given. */
function request(fields: [name: string, value: string][], httpVersion = '1.1') {
  const headers: IncomingHttpHeaders = {}
  for (const [name, value] of fields) headers[name.toLowerCase()] ??= value
  return { httpVersion, headers, rawHeaders: fields.flat() } as unknown as IncomingMessage
}

const host: [string, string] = ['Host', 'plants.example']
const ok = undefined

t.test('the header as a whole', async (t) => {
  const hostFails = 'the header field host is missing or malformed'
  const hosts: [value: string, message: string | undefined][] = [
    ['', ok],
    ['plants.example', ok],
    ['PLANTS.example:8080', ok],
    ['127.0.0.1:', ok],
    ['[::1]', ok],
    ['[2001:DB8::1.2.3.4]:80', ok],
    ["a_b~c%20!$&'()*+,;=-z", ok],
    [':80', ok],
    ['a b', hostFails],
    ['a/b', hostFails],
    ['user@a', hostFails],
    ['a:8o', hostFails],
    ['a:80 ', hostFails],
    [' a:80', hostFails],
    ['a:80:80', hostFails],
    ['::1', hostFails],
    ['[]', hostFails],
    ['[::g]', hostFails],
    ['x[::1]', hostFails]
  ]
  for (const [value, message] of hosts)
    t.equal(checkHead(request([['Host', value]]))?.message, message, value)

  const version = 'the protocol must be HTTP/1.1'
  const chunked = 'the only supported transfer coding is chunked'
  const expectation = 'the only supported expectation is 100-continue'
  const cases: [fields: [string, string][], httpVersion: string, message: string | undefined][] = [
    [[], '1.1', hostFails],
    [[], '1.0', ok],
    [[['Host', 'a b']], '1.0', hostFails],
    [[host], '0.9', version],
    [[host], '2.0', version],
    [[host, ['Transfer-Encoding', 'Chunked']], '1.1', ok],
    [[host, ['Transfer-Encoding', 'gzip, chunked']], '1.1', chunked],
    [[host, ['Transfer-Encoding', 'chunked']], '1.0', 'HTTP/1.0 does not define Transfer-Encoding'],
    [[host, ['Expect', '100-Continue']], '1.1', ok],
    [[host, ['Expect', '200-ok']], '1.1', expectation],
    [[host, ['Accept', 'a'], ['Accept', 'b']], '1.1', ok]
  ]
  for (const name of ['Authorization', 'Content-Encoding', 'Content-Type', 'Host', 'Idempotency-Key']) {
    const message = `the header field ${name.toLowerCase()} is repeated`
    cases.push([[host, [name, 'a'], ['Accept', 'a'], [name.toUpperCase(), 'a']], '1.1', message])
    if (name !== 'Host') cases.push([[host, [name, 'a'], ['X', name]], '1.1', ok])
  }
  for (const [fields, httpVersion, message] of cases) {
    t.equal(checkHead(request(fields, httpVersion))?.message, message, `${httpVersion} ${fields.join('; ')}`)
  }
})

t.test('a transfer coding in HTTP/1.0 is faulty framing', async (t) => {
  const coded: [string, string] = ['Transfer-Encoding', 'chunked']
  t.ok(isFramingFaulty(request([host, coded], '1.0')))
  t.notOk(isFramingFaulty(request([host], '1.0')))
  t.notOk(isFramingFaulty(request([host, coded])))
})

t.test('a client that sends Expect in HTTP/1.1 may wait for 100', async (t) => {
  const expects: [string, string] = ['Expect', '100-continue']
  t.ok(awaits100(request([host, expects])))
  t.notOk(awaits100(request([host])))
  t.notOk(awaits100(request([host, expects], '1.0')))
})
