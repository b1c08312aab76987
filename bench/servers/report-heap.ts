/** Loaded into the watched service: tells its parent, each time it asks, what the heap holds after a collection. */
process.on('message', () => {
  globalThis.gc?.()
  process.send?.(process.memoryUsage().heapUsed)
})
// Only the server keeps the process alive.
process.channel?.unref()
