/** The histogram's page is that of the library's own, to the byte. */
import { Histogram, Registry } from '@prometheus-io/client'
import fc from 'fast-check'
import t from 'tap'
import { addHistogram, type Series } from '../../src/metrics/metrics.ts'

const buckets = [0.001, 0.5, 1, 10]
const config = { name: 'plant_store_test_seconds', help: 'What "is" measured', buckets }
const addTo = (registry: Registry) => addHistogram(registry, 'test_seconds', config.help, buckets)

t.test('any values under any labels', async () => {
  const label = fc.constantFrom('a', 'b "quoted"', 'c\\d\n')
  const value = fc.oneof(fc.constantFrom(0, ...buckets), fc.double({ noNaN: true, noDefaultInfinity: true }))
  const observations = fc.array(fc.tuple(label, fc.nat(2), value), { maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(observations, async (all) => {
      const [own, library] = [new Registry(), new Registry()]
      const addSeries = addTo(own)
      const known = new Map<string, Series>()
      const theirs = new Histogram({ ...config, labelNames: ['route', 'failure'], registers: [library] })
      for (const [route, failure, value] of all) {
        const series = known.get(route + failure) ?? addSeries({ route, failure })
        known.set(route + failure, series)
        series.observe(value)
        theirs.observe({ route, failure }, value)
      }
      if ((await own.metrics()) !== (await library.metrics())) throw new Error(await own.metrics())
    })
  )
})

t.test('without labels it is there from the beginning', async (t) => {
  const [own, library] = [new Registry(), new Registry()]
  const { observe } = addTo(own)()
  const theirs = new Histogram({ ...config, registers: [library] })
  t.equal(await own.metrics(), await library.metrics())
  for (const value of [0.2, 11]) {
    observe(value)
    theirs.observe(value)
  }
  t.equal(await own.metrics(), await library.metrics())
})
