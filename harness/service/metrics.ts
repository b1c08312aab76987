/** Assertions over a metrics page. */
import type { Test } from 'tap'
import { is, until } from '../time/until.ts'
import { parseMetrics } from './metrics-page.ts'

/** Waits for `plant_store_<name>` on a service's page to have this value. */
export async function shows(t: Test, service: { metrics(): Promise<string> }, name: string, value: number) {
  const read = async () => parseMetrics(await service.metrics()).value(`plant_store_${name}`)
  t.equal(await until(`${name} is ${value}`, read, is(value)), value)
}
