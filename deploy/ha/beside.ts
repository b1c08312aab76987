/** Commands that run beside a node for a while, each in a container of its own: what a fault needs to last. */
import { until } from '../../dev/until.ts'
import type { Stack } from '../faults/stack.ts'

interface Beside {
  /** What of the node it shares. */
  shares: 'network' | 'pid'
  capabilities?: string[]
  /** The stack's image that has the command. */
  image: 'node' | 'api'
  command: string[]
  /** What it prints once it works. */
  begins: string
}

/** Starts the command, and returns when it works. */
export async function startBeside(stack: Stack, node: string, tag: string, beside: Beside) {
  const { shares, capabilities = [], image, command, begins } = beside
  const name = `${stack.name}-${tag}`
  const confined = ['--user=root', '--cap-drop=ALL', ...capabilities.map((each) => `--cap-add=${each}`)]
  const shared = `--${shares}=container:${stack.container(node)}`
  const flags = ['--detach', '--name', name, ...confined, shared]
  await stack.docker('run', ...flags, `${stack.name}-${image}`, ...command)
  await until(
    `${command[0]} works beside ${node}`,
    () => stack.docker('logs', name),
    (printed) => printed.includes(begins)
  )
}

/** Ends the command, unless it is gone already. */
export async function endBeside(stack: Stack, tag: string) {
  const found = await stack.docker('ps', '--all', '--quiet', '--filter', `name=^${stack.name}-${tag}$`)
  if (found !== '') await stack.docker('rm', '--force', found)
}
