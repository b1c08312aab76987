/** Sidecars of a node: containers that share a part of it and run a command for as long as a fault lasts. */
import { until } from '../../../support/until.ts'
import type { Stack } from '../stack.ts'

interface Sidecar {
  /** The part of the node that it shares. */
  shares: 'network' | 'pid'
  capabilities?: string[]
  /** The stack's image that has the command. */
  image: 'node' | 'api'
  command: string[]
  /** What it prints once it works. */
  begins: string
}

/** Starts the command, and returns when it works. */
export async function startSidecar(stack: Stack, node: string, tag: string, sidecar: Sidecar) {
  const { shares, capabilities = [], image, command, begins } = sidecar
  const name = `${stack.name}-${tag}`
  const confined = ['--user=root', '--cap-drop=ALL', ...capabilities.map((each) => `--cap-add=${each}`)]
  const shared = `--${shares}=container:${stack.container(node)}`
  const flags = ['--detach', '--name', name, ...confined, shared]
  await stack.docker('run', ...flags, `${stack.name}-${image}`, ...command)
  await until(
    `${command[0]} works in a sidecar of ${node}`,
    () => stack.docker('logs', name),
    (printed) => printed.includes(begins)
  )
}

/** Ends the command, unless it is gone already. */
export async function endSidecar(stack: Stack, tag: string) {
  const found = await stack.docker('ps', '--all', '--quiet', '--filter', `name=^${stack.name}-${tag}$`)
  if (found !== '') await stack.docker('rm', '--force', found)
}
