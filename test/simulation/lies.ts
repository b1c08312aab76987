/** Services whose responses are not true: the judge must find each of them. */
import { currentProcess } from './process.ts'
import type { Response, Service } from './service.ts'
import type { Loaded } from './simulation.ts'

/** A lie, and what the judge must say of it. */
interface Lie {
  readonly finds: RegExp
  /** Returns what is told instead; undefined for no response at all. */
  readonly tell: (response: Response, name: string) => Response | undefined
  /** It is told before anything is stored, or so much later. */
  readonly when?: 'at once' | 'late'
}

const lateMs = 20_000
const fail = (error: number, message: string, writeOutcome?: string) => ({
  response: { status: 400, body: { error, message } },
  writeOutcome
})
const isStored = ({ stored }: Response) => stored !== undefined
const succeed = (name: string): Response => ({ response: { status: 200, body: { name } }, stored: 'created' })
const nothing = 'the deadline passed; this request stored nothing; retry later'

/** The lies, by what they claim. */
export const lies = {
  'stored, before it is': { finds: /told "stored"/, tell: (_, name) => succeed(name), when: 'at once' },
  'nothing stored, where that is open': {
    finds: /told "nothing stored"/,
    tell: (told) => (told.writeOutcome === 'unknown' ? fail(503, nothing, 'none') : told)
  },
  'nothing stored, where it is': {
    finds: /told "nothing stored"/,
    tell: (told) => (isStored(told) ? fail(503, nothing, 'none') : told)
  },
  'taken, by its own plant': {
    finds: /told "taken"/,
    tell: (told) => (isStored(told) ? fail(409, 'a plant with this id already exists') : told)
  },
  'reused, with the same content': {
    finds: /told "reused"/,
    tell: (told) =>
      isStored(told)
        ? fail(422, 'this Idempotency-Key was already used for this id with different content')
        : told
  },
  'replayed, where it is created': {
    finds: /told "replayed"/,
    tell: (told) => (isStored(told) ? { ...told, stored: 'replayed' } : told)
  },
  'created, where it is replayed': {
    finds: /told "created"/,
    tell: (told) => (isStored(told) ? { ...told, stored: 'created' } : told)
  },
  'refused, a good plant': {
    finds: /a good plant is refused/,
    tell: (told) =>
      'error' in told.response.body ? fail(422, 'the plant breaks a rule of this store') : told
  },
  'an internal error, without one': {
    finds: /nothing explains an internal error/,
    tell: (told) => ('error' in told.response.body ? fail(500, 'internal error', 'unknown') : told)
  },
  'no time, while all is well': {
    finds: /while all is well fails|after all is healed fails/,
    tell: (told) => ('error' in told.response.body ? fail(503, nothing, 'none') : told)
  },
  'an endless loop': {
    finds: /never ends/,
    tell: () => {
      for (;;);
    }
  },
  'nothing at all': { finds: /never ends|no response/, tell: () => undefined },
  'the truth, too late': { finds: /after its deadline/, tell: (told) => told, when: 'late' }
} satisfies Record<string, Lie>

export type LieName = keyof typeof lies

/** Makes services that tell a lie, or leaves them as they are. */
export function tellLie(loaded: Loaded, name: LieName | undefined): Loaded {
  if (name === undefined) return loaded
  const { tell, when }: Lie = lies[name]
  const lieOf = (service: Service): Service => ({
    ...service,
    create(create, respond) {
      const told = (response: Response | undefined) => response && respond(response)
      const process = currentProcess()
      service.create(create, (response) => {
        if (when === undefined) told(tell(response, create.plant.name))
        else if (when === 'late') process.setTimer(() => told(tell(response, create.plant.name)), lateMs)
      })
      if (when === 'at once') told(tell(succeed(''), create.plant.name))
    }
  })
  return { ...loaded, createService: (...args) => lieOf(loaded.createService(...args)) }
}
