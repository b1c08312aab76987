/**
 * The base of errors that become responses. They have no stack, because their name and cause say enough: under overload or
 * in an outage there are thousands a second, and collecting stacks would cost more than the rest of the responses.
 */
export class StacklessError extends Error {
  constructor(message: string, cause?: unknown) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
  }
}
