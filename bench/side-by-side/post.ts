/** One request of the kind that loads do not send. */
import { type Outcome, post as postTo } from '../../test/support/post.ts'
import { headers } from '../plant.ts'

const timeoutMs = 30_000

/** Posts a body over a connection of its own; gives up when nothing comes for 30 s. */
export const post = (url: string, body: string): Promise<Outcome> => postTo(url, body, { headers, timeoutMs })
