/** The base of errors that become somebody's response. */

/**
 * An error without a stack: where it was made says nothing that its name and cause do not, and under overload or in an
 * outage, when there are thousands a second, collecting stacks would cost more than the rest of the responses.
 */
export class StacklessError extends Error {
  constructor(message: string, cause?: unknown) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
  }
}
