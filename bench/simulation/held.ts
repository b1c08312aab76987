/** How long the storage of bench/servers/held.ts holds a batch, in ms: the shortest that Node's timers can. */
export const heldMs = 1
