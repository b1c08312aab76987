/** What is measured of the access tokens. */
import type { Registry } from '@prometheus-io/client'
import { addGauge } from '../metrics/gauge.ts'

/** Adds the metrics of the tokens to a registry, and gives what shows whether their file is broken. */
export function createTokenMetrics(registry: Registry) {
  let isBroken = () => false
  const help = '1 while AUTH_TOKENS_FILE is broken, and the tokens are those that it had before'
  addGauge(registry, 'tokens_file_error', help, () => +isBroken())

  return {
    /** Shows the state of a file of tokens on the page. */
    watch(file: { isBroken(): boolean }) {
      isBroken = file.isBroken
    }
  }
}
