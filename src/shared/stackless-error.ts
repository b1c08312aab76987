/**
 * The base of errors that become responses: without a stack. The name and the cause say enough. Under overload or in an
 * outage there are thousands a second, and collecting stacks would cost more than the rest of the responses.
 */
export class StacklessError extends Error {
  constructor(message: string, cause?: unknown) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
  }
}
