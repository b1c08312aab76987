/** Exact ids out of bodies of up to 1 MiB: right, and at a bounded cost. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { cases } from '../../harness/random/json-cases.ts'
import { toInt64 } from '../../harness/random/json-texts.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { createJsonReader } from '../../src/body/json.ts'

const parseWithExactId = createJsonReader(['id'])

/** The exact id by JSON.parse's own account of where a value stood: a call for each value, hence slow. */
function findSlowly(text: string): string | undefined {
  const sources = new WeakMap<object, string>()
  const revive = function (this: object, key: string, value: unknown, { source }: { source: string }) {
    if (key === 'id' && typeof value === 'number') sources.set(this, source)
    return value
  }
  const parse = JSON.parse as (text: string, reviver: typeof revive) => object
  return sources.get(parse(text, revive))
}

t.test('a megabyte is read as exactly as any text, within a bounded time', async (t) => {
  let ms = 0
  for (const [name, body] of Object.entries(cases)) {
    const started = performance.now()
    const { id, ...others } = parseWithExactId(body) as { id: unknown }
    ms += performance.now() - started
    const text = body.toString()
    const { id: rounded, ...expected } = JSON.parse(text)
    t.strictSame(id, toInt64(findSlowly(text) ?? '') ?? rounded, name)
    t.ok(isDeepStrictEqual(others, expected), `${name}: the rest`)
  }
  t.ok(ms < scaled(30_000), `${ms} ms`)
})
