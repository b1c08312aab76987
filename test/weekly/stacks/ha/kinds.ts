/** What a schedule can draw on this stack, and what of it each form of the service survives without a pause. */
import type { Form } from '../run.ts'
import type { Kind } from '../schedule.ts'
import type { Stack } from '../stack.ts'
import { createProcessKinds } from '../strikes.ts'
import { createCluster, nodes } from './cluster.ts'
import { createDiskKinds } from './disk.ts'
import { createNetworkKinds } from './network.ts'

const etcd = ['etcd1', 'etcd2', 'etcd3']

/** Describes a form of the service by the proxies between clients and database, of which the last is its balancer. */
export function createForm(title: string, replicas: string[], proxies: string[]) {
  /** With two whole nodes that reach each other, the majority of etcd, a replica and the proxies. */
  function isAvailable(hits: string[]): boolean {
    const has = (hit: string) => hits.includes(hit)
    const lame = nodes.filter(has)
    const cuts = ['node1-node2', 'node1-node3', 'node2-node3'].filter(has)
    const isMajority =
      lame.length === 1 ? cuts.every((cut) => cut.includes(lame[0] as string)) : cuts.length <= 1
    return (
      lame.length <= 1 &&
      isMajority &&
      etcd.filter(has).length <= 1 &&
      replicas.filter(has).length < replicas.length &&
      !proxies.some(has)
    )
  }

  return { title, balancer: proxies.at(-1) as string, replicas, proxies, isAvailable }
}

/** Returns what can be drawn on a stack with these forms. */
export function createKinds(stack: Stack, forms: (Form & { proxies: string[] })[]): Kind[] {
  return [
    // The nodes come twice as often as the others.
    ...[1, 2].flatMap(() => [
      ...createProcessKinds(stack, [...nodes]),
      ...createNetworkKinds(stack),
      ...createDiskKinds(stack)
    ]),
    ...createProcessKinds(stack, etcd),
    ...forms.flatMap(({ replicas, proxies }) => [
      ...createProcessKinds(stack, replicas),
      ...createProcessKinds(stack, proxies)
    ]),
    {
      ...{ name: 'changes by a switchover', targets: ['the primary'], group: 'process', longest: 0 },
      needs: () => [],
      hits: () => [],
      // Patroni refuses it without a candidate.
      refusal: /switchover/,
      strike: createCluster(stack).switchoverNow
    }
  ]
}
