/** Loaded into the service by dev.ts, which shares a channel with it: the service ends when dev.ts has ended, however that was. */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
