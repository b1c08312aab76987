/** Faults that last until a test has seen what they cause. */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectTo } from '../../support/sockets.ts'

export function startRepeating() {
  let isOver = false
  const sockets = new Set<Socket>()

  /** Repeats an action, whether it fails or not. */
  async function repeat(pauseMs: number, act: () => Promise<unknown>): Promise<void> {
    while (!isOver) {
      await act().catch(() => {})
      await sleep(pauseMs)
    }
  }

  /** Holds this many connections without a request open. */
  function hold(url: string, count: number) {
    const open = () => {
      if (isOver) return
      const socket = connectTo(url).on('error', () => {})
      sockets.add(socket)
      socket.resume().once('close', () => {
        sockets.delete(socket)
        open()
      })
    }
    for (let index = 0; index < count; index++) open()
  }

  function end() {
    isOver = true
    for (const socket of sockets) socket.destroy()
  }

  return { repeat, hold, end }
}
