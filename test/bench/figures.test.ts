/** The pages' figures are of the sources that are released. */
import t from 'tap'
import { findStale } from '../../bench/figures.ts'

t.test('figures of other sources, and figures that are missing, are named by their benchmark', async (t) => {
  const all = { bench: {}, growth: {}, peers: {}, neighbours: {} }
  const of = (sources: string) => Object.fromEntries(Object.keys(all).map((name) => [name, { sources }]))
  t.strictSame(findStale(of('now'), 'now'), [])
  t.strictSame(findStale({ ...of('now'), bench: { sources: 'before' } }, 'now'), ['standard'])
  t.strictSame(findStale({ ...of('now'), neighbours: undefined }, 'now'), ['neighbours'])
  t.strictSame(findStale({ ...of('now'), peers: {} }, 'now'), ['peers'], 'of uncommitted sources')
})
