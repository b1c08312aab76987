/** Clients of the services, as docs/clients.md tells them to behave, and what they note of each request. */
import type { Operation } from '../../dev/histories/history.ts'
import type { Process } from './process.ts'
import type { Response } from './service.ts'
import type { Simulation } from './simulation.ts'

/** A plant that a client wants, sent at a time to a service; after that it tries any. */
export interface Order {
  readonly at: number
  readonly service: number
  readonly id: string
  readonly name: string
  readonly tag?: string
  readonly key?: string
  /** How often it is sent at the most. */
  readonly tries: number
}

const typicalMs = 0.3
/** Above any deadline. */
const timeoutMs = 30_000
const worthAnotherTry = new Set([408, 429, 500, 503])
/** How much longer than the deadline a create may take: timers ring in whole milliseconds. */
const slackMs = 5

/** Sends orders, again and again as the responses say. */
export class Clients {
  readonly operations: Operation[] = []
  /** So many of the next responses get lost. */
  lostResponses = 0
  /** Nothing goes wrong any more. */
  isCalm = false
  readonly #simulation: Simulation
  /** Creates that services have taken and not responded to. */
  readonly #open = new Map<Operation, Process>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  /** Where it is open what is stored, somebody else wants the same id: what is visible by then may not last. */
  #rival({ id, service }: Order) {
    const { world } = this.#simulation
    if (this.isCalm || world.random.oneIn(2)) return
    const rival = { at: 0, service: service + world.random.integer(2), id, name: 'rival', tries: 1 }
    world.after(world.random.integer(world.random.pick([10, 100, 1000])), () => this.send(rival))
  }

  /** The creates that a service which is alive owes a response. */
  get owed(): Operation[] {
    return [...this.#open].filter(([, process]) => !process.isDead).map(([operation]) => operation)
  }

  send(order: Order, attempt = 1) {
    const { world, services } = this.#simulation
    const { id, name, tag, key } = order
    const index = attempt === 1 ? order.service : world.random.integer(services.length)
    const { process, service } = this.#simulation.serviceAt(index)
    const operation: Operation = {
      id,
      name,
      ...(tag === undefined ? {} : { tag }),
      ...(key === undefined ? {} : { key }),
      began: world.now
    }
    this.operations.push(operation)
    world.log('client', `${process.name} <- ${describe(order)}`)
    let isOver = false
    const end = (response: Response | undefined) => {
      if (isOver) return
      isOver = true
      if (response) {
        operation.ended = world.now
        operation.response = response
      }
      world.log(
        'client',
        `${process.name} -> ${describe(order)}: ${JSON.stringify(response?.body) ?? 'lost'}`
      )
      if (!response || isOpen(response)) this.#rival(order)
      const number = response && 'error' in response.body ? response.body.error : undefined
      if (response && !worthAnotherTry.has(number ?? 0)) return
      if (attempt === order.tries) return
      // Retry-After is a second.
      const seconds = response ? 1 : attempt
      world.after(seconds * 1000 * (0.8 + 0.4 * world.chance()), () => this.send(order, attempt + 1))
    }
    process.onDeath.push(() => end(undefined))
    world.after(timeoutMs, () => end(undefined))
    world.after(world.duration(typicalMs), () => {
      if (process.isDead) return end(undefined)
      process.receive(() => {
        const began = world.now
        this.#open.set(operation, process)
        service.create({ id: BigInt(id), name, ...(tag === undefined ? {} : { tag }) }, key, (response) => {
          this.#open.delete(operation)
          const due = Math.max(began + this.#simulation.settings.deadlineMs, process.resumedAt)
          if (world.now > due + slackMs)
            world.violate(`a create ends ${Math.round(world.now - due)} ms after its deadline`)
          const isLost = this.lostResponses > 0
          if (isLost) this.lostResponses--
          world.after(world.duration(typicalMs), () => end(isLost || process.isDead ? undefined : response))
        })
      })
    })
  }
}

/** The plant may be stored. */
const isOpen = ({ body }: Response) => 'message' in body && body.message.includes('may be stored')

const describe = ({ id, name, tag, key }: Order) =>
  `${id} ${name}${tag ? `/${tag}` : ''}${key ? ` key ${key}` : ''}`
