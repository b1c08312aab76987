/** What simulated processes have instead of the machine's time, chance and network. */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import timersPromises from 'node:timers/promises'
import { currentProcess, runningProcess, Timer } from './process.ts'

type Callback = (...args: unknown[]) => void

/**
 * Replaces time, chance and connections for the code of simulated processes, once a thread and before that code is
 * loaded; everything else keeps the machine's. Node's mock timers and @sinonjs/fake-timers ring for a whole thread: no
 * process of several could pause alone.
 */
export function installProcesses() {
  replaceTimers()
  replaceClocks()
  replaceChance()
  net.connect = ((port: number, address: string) => currentProcess().connect(port, address)) as never
  syncBuiltinESMExports()
  process.on('unhandledRejection', (error) => {
    const current = runningProcess()
    if (!current) throw error
    current.world.violate(`${current.name} crashes: ${(error as Error).stack}`)
  })
}

function replaceTimers() {
  const { setTimeout, clearTimeout, setImmediate } = globalThis
  Object.assign(globalThis, {
    setTimeout: (callback: Callback, ms?: number, ...args: unknown[]) =>
      runningProcess()?.setTimer(() => callback(...args), ms) ?? setTimeout(callback, ms, ...args),
    clearTimeout: (timer: unknown) =>
      timer instanceof Timer ? timer.owner.clearTimer(timer) : clearTimeout(timer as NodeJS.Timeout),
    setImmediate: (callback: Callback, ...args: unknown[]) =>
      runningProcess()?.setImmediate(() => callback(...args)) ?? setImmediate(callback, ...args)
  })
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController()
    currentProcess().setTimer(() => controller.abort(new DOMException('timeout', 'TimeoutError')), ms)
    return controller.signal
  }
  timersPromises.setTimeout = ((ms?: number) =>
    new Promise<void>((resolve) => currentProcess().setTimer(resolve, ms))) as never
}

function replaceClocks() {
  const now = performance.now.bind(performance)
  const dateNow = Date.now
  performance.now = () => {
    const process = runningProcess()
    return process ? process.world.now + process.clockOffsetMs : now()
  }
  Date.now = () => {
    const process = runningProcess()
    return process ? Math.floor(process.world.now + process.wallOffsetMs) : dateNow()
  }
}

function replaceChance() {
  const { random } = Math
  Math.random = () => runningProcess()?.world.chance() ?? random()
  crypto.randomUUID = () => {
    const process = currentProcess()
    const { random } = process.world
    const hex = Array.from({ length: 32 }, () => random.integer(16).toString(16)).join('')
    process.lastUuid = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
    return process.lastUuid as never
  }
}
