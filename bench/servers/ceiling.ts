/** The server with storage that answers at once: what HTTP, auth, validation and the log leave room for. */
import { serve } from './serve.ts'

await serve(() => ({ create: async () => {} }))
