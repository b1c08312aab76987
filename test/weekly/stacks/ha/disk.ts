/** The faults of a node's disk that a schedule can draw. */
import type { Kind } from '../schedule.ts'
import type { Stack } from '../stack.ts'
import { nodes } from './cluster.ts'
import { endSidecar, startSidecar } from './sidecar.ts'

/** The system calls that wait for the disk, and by how many µs they are delayed. */
const [calls, delay] = ['fsync,fdatasync', 200_000]
const strace = `strace -f -o /dev/null -e trace=${calls} -e inject=${calls}:delay_enter=${delay}`
/** Traces all processes and what they start, as PostgreSQL may not run just now. */
const slow = `for each in /proc/[0-9]*; do [ "$each" = "/proc/$$" ] || set -- "$@" -p "\${each#/proc/}"; done
exec ${strace} "$@" 2>&1`

/** Returns the kinds for a stack's nodes. */
export function createDiskKinds(stack: Stack): Kind[] {
  const common = { targets: [...nodes], group: 'disk', longest: 20 }
  const needs = (node: string) => [stack.container(node)]
  const file = '/var/lib/postgresql/filler'
  return [
    {
      // Its volume is small (small-volumes.yaml).
      ...{ ...common, needs, name: 'has a full disk' },
      strike: (node) => stack.exec(node, 'sh', '-c', `dd if=/dev/zero of=${file} bs=64k 2>/dev/null || true`),
      // The holder has the volume also while the node is gone.
      heal: (node) => stack.exec('holder', 'rm', '-f', `/mnt/${node}/filler`)
    },
    {
      ...{ ...common, needs, name: 'has a slow disk' },
      strike: (node, tag) =>
        startSidecar(stack, node, tag, {
          ...{ shares: 'pid', capabilities: ['SYS_PTRACE'], image: 'node', begins: 'attached' },
          command: ['sh', '-c', slow]
        }),
      heal: (_, tag) => endSidecar(stack, tag)
    }
  ]
}
