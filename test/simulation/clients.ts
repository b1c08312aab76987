/** Clients of the services, which follow docs/clients.md, and their record of each request. */

import type { Plant } from '../../src/plants/schema.ts'
import type { Operation } from '../support/histories/history.ts'
import { toPlant } from '../support/plants.ts'
import type { Process } from './process.ts'
import type { Response } from './service.ts'
import type { Simulation } from './simulation.ts'

/** A plant that a client wants. It is first sent at this time to this service, and then to any. */
export interface Order extends Plant {
  readonly at: number
  readonly service: number
  readonly id: string
  readonly caller: string
  readonly key?: string
  /** How often it is sent at most. */
  readonly tries: number
  /** How often its client goes on with another plant, of the next id or of the same. */
  readonly more?: number
  readonly step?: number
}

/** A request, and what only the model knows about it; its key belongs to its caller alone. */
export interface Request extends Operation {
  /** The process that it was sent to. */
  readonly process: Process
  /** The id of its row's write; absent if the create was not accepted. */
  writeId?: string
  /** When its process has responded, and with what; `ended` is when its client has the response. */
  respondedAt?: number
  writeOutcome?: string | undefined
  stored?: 'created' | 'replayed' | undefined
}

const typicalMs = 0.3
/** Above any deadline. */
const timeoutMs = 30_000
const worthAnotherTry = new Set([408, 429, 500, 503])
/** How much longer than the deadline a create may take: timers ring in whole milliseconds. */
const slackMs = 5

/** Sends orders, and repeats them as the responses say. */
export class Clients {
  readonly requests: Request[] = []
  /** How many of the next responses get lost. */
  lostResponses = 0
  /** From now on nothing goes wrong. */
  isCalm = false
  readonly #simulation: Simulation
  /** Creates that services have accepted and not responded to. */
  readonly #open = new Set<Request>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  /** If an outcome is open, a rival may want the same id: the row that is visible then may not last. */
  #rival({ id, service }: Order) {
    const { world } = this.#simulation
    if (this.isCalm || world.random.oneIn(2)) return
    const rival = {
      at: 0,
      service: service + world.random.integer(2),
      id,
      name: 'rival',
      caller: 'a',
      tries: 1
    }
    world.after(world.random.integer(world.random.pick([10, 100, 1000])), () => this.send(rival))
  }

  /** The creates to which a living service owes a response. */
  get owed(): Request[] {
    return [...this.#open].filter(({ process }) => !process.isDead)
  }

  send(order: Order, attempt = 1) {
    const { world, services, settings } = this.#simulation
    const { id, key, caller } = order
    const index = attempt === 1 ? order.service : world.random.integer(services.length)
    const { process, service } = this.#simulation.serviceAt(index)
    const request: Request = {
      id,
      ...toPlant(order),
      ...(key === undefined ? {} : { key: `${caller} ${key}` }),
      began: world.now,
      process
    }
    this.requests.push(request)
    world.log('client', `${process.name} <- ${describe(order)}`)
    let isOver = false
    const end = (received: Response | undefined) => {
      if (isOver) return
      isOver = true
      if (received) {
        request.ended = world.now
        request.response = received.response
        request.writeOutcome = received.writeOutcome
        request.stored = received.stored
      }
      world.log('client', `${process.name} -> ${describe(order)}: ${received ? show(received) : 'lost'}`)
      const { more = 0, step = 0 } = order
      if (more > 0 && !this.isCalm) {
        const next = { ...order, more: more - 1, id: `${BigInt(id) + BigInt(step)}` }
        world.after(world.duration(1), () => this.send(next))
      } else if (!received || received.writeOutcome === 'unknown') this.#rival(order)
      const number = received && 'error' in received.response.body ? received.response.body.error : undefined
      if (received && !worthAnotherTry.has(number ?? 0)) return
      if (attempt === order.tries) return
      // Retry-After is a second.
      const seconds = received ? 1 : attempt
      world.after(seconds * 1000 * (0.8 + 0.4 * world.chance()), () => this.send(order, attempt + 1))
    }
    process.onDeath.push(() => end(undefined))
    world.after(timeoutMs, () => end(undefined))
    world.after(world.duration(typicalMs), () => {
      if (process.isDead) return end(undefined)
      process.receive(() => {
        const began = world.now
        this.#open.add(request)
        process.lastUuid = undefined
        const plant = { id: BigInt(id), ...toPlant(order) }
        service.create({ plant, caller, key }, (received) => {
          this.#open.delete(request)
          request.respondedAt = world.now
          const due = Math.max(began + settings.deadlineMs, process.resumedAt)
          if (world.now > due + slackMs)
            world.violate(`a create ends ${Math.round(world.now - due)} ms after its deadline`)
          const isLost = this.lostResponses > 0
          if (isLost) this.lostResponses--
          world.after(world.duration(typicalMs), () => end(isLost || process.isDead ? undefined : received))
        })
        const { lastUuid } = process
        if (key !== undefined && lastUuid !== undefined) world.violate('a write id is drawn for a key')
        // A create without a key that is refused at once has none.
        const writeId = key === undefined ? lastUuid : this.#simulation.writeIdOf(caller, key, plant)
        if (writeId !== undefined) request.writeId = writeId
      })
    })
  }
}

const show = ({ response, stored }: Response) => `${short(JSON.stringify(response.body))} ${stored ?? ''}`
const short = (text: string) => (text.length > 200 ? `${text.slice(0, 200)}…` : text)

const describe = ({ id, caller, key, ...order }: Order) =>
  `${id} ${short(Object.values(toPlant(order)).join('/'))}${key ? ` key ${caller} ${key}` : ''}`
