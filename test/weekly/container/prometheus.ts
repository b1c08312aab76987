/** The stack's Prometheus, in which times are short. */

/** A time in which a process can start four times. */
const window = `${30_000}ms`

interface Rule {
  name: string
  type: 'alerting' | 'recording'
  health: 'ok' | 'unknown' | 'err'
  alerts?: { state: string }[]
}

/** Returns the rules with times that a test can wait for; a condition holds for some seconds before its alert fires. */
export const shorten = (rules: string, seconds: number) =>
  rules.replace(/\[\d+[mhd](:?)\w*\]/g, `[${window}$1]`).replace(/^( +for:) .*/gm, `$1 ${seconds}s`)

/** Asks the Prometheus at an address, host:port. */
export function askPrometheus(address: string) {
  const read = async (path: string) =>
    JSON.parse(await (await fetch(`http://${address}/api/v1/${path}`)).text()).data
  const readRules = async (): Promise<Rule[]> =>
    (await read('rules')).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
  return {
    rules: readRules,
    /** The names of all metrics that it has met. */
    metrics: (): Promise<string[]> => read('label/__name__/values'),
    /** The alerts that fire now. */
    async firing(): Promise<string[]> {
      const rules = await readRules()
      const fires = ({ alerts = [] }: Rule) => alerts.some(({ state }) => state === 'firing')
      return rules.filter(fires).map(({ name }) => name)
    },
    /** The values of a query. */
    async values(query: string): Promise<string[]> {
      const { result } = await read(`query?${new URLSearchParams({ query })}`)
      return result.map(({ value: [, text] }: { value: [number, string] }) => text)
    }
  }
}
