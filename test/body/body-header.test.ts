/** What a request's header says about its body, one call a case. */
import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import { checkBodyHeader } from '../../src/body/body-header.ts'

t.test('what the header says about the body', async (t) => {
  const type = 'the content type must be application/json'
  const charset = 'the charset must be UTF-8'
  const json = { 'content-type': 'application/json', 'content-length': '100' }
  const cases: [headers: IncomingHttpHeaders, error?: number, message?: string][] = [
    [json],
    [{ 'content-type': 'application/json', 'transfer-encoding': 'chunked' }],
    [{ ...json, 'content-length': '0', 'transfer-encoding': 'chunked' }],
    [{ ...json, 'content-length': '0' }, 400, 'a body is required'],
    [{ 'content-type': 'application/json' }, 400, 'a body is required'],
    [{ 'content-length': '5' }, 415, type],
    [{ ...json, 'content-type': 'text/plain' }, 415, type],
    [{ ...json, 'content-type': 'application/json5' }, 415, type],
    [{ ...json, 'content-type': ' Application/JSON ; a=b' }],
    [{ ...json, 'content-type': 'application/json; a=b ; charset="UTF-8"' }],
    [{ ...json, 'content-type': 'application/json;charset=utf-8' }],
    [{ ...json, 'content-type': 'application/json; a=b; charset=utf-16' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; charset=xutf-8' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; charset=utf-8x' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; charset = utf-8' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; charset=charset=utf-8' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; x="a;charset=latin1"' }],
    [{ ...json, 'content-type': 'application/json; x="\\";charset=latin1"' }],
    [{ ...json, 'content-type': 'application/json; x="a";charset=latin1' }, 415, charset],
    [{ ...json, 'content-type': 'application/json; x="a;charset=latin1' }],
    [{ ...json, 'content-type': 'application/json; x="a\\' }],
    [{ ...json, 'content-encoding': 'Identity' }],
    [{ ...json, 'content-encoding': 'gzip' }, 415, 'the content encoding is not supported'],
    [{ ...json, 'content-length': '101' }, 413, 'the body is too large']
  ]
  for (const [headers, error, message] of cases) {
    const failure = checkBodyHeader(headers, 100)
    t.strictSame([failure?.error, failure?.message], [error, message], JSON.stringify(headers))
  }
})

t.test('the time for a content type grows with its length, not with the square of it', async (t) => {
  const msOf = (what: string, count: number) => {
    const type = `application/json;${what.repeat(count)}x`
    const times = Array.from({ length: 5 }, () => {
      const began = performance.now()
      checkBodyHeader({ 'content-type': type, 'content-length': '5' }, 100)
      return performance.now() - began
    })
    return Math.min(...times)
  }
  // 64 times as much takes 4,096 times as long where each quote is a beginning.
  for (const what of ['"\\', ' ', '"', ';', 'a=" ']) {
    const [short, long] = [msOf(what, 250), msOf(what, 16_000)]
    t.ok(long < 1_000 * Math.max(short, 0.005), `${what}: ${long} ms, for a 64th of it ${short} ms`)
  }
})
