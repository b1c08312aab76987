/** What is known of an open connection. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import type { Failure } from '../failures/failure.ts'

/** An open connection: what its client has asked for, and what it is still owed. */
export interface Connection {
  /** The responses that are not sent completely, in the order of their requests; Fastify's reply once it has one. */
  readonly pendingResponses: Map<ServerResponse, FastifyReply | undefined>
  /** The request that came last, whether its response is sent or not. */
  newest: IncomingMessage | undefined
  /** What has broken the newest request, the rest of which is not read. */
  newestFailure: Failure | undefined
  /** No request behind the newest is read. */
  isFinal: boolean
  /** Nothing behind what has been parsed counts: a response was the last, or the bytes are no request. */
  isOver: boolean
  /** A failure is to be written behind the pending responses, without Fastify. */
  owesFailure: boolean
  /** It was opened beyond the limit: its first request is its last. */
  readonly isExcess: boolean
  /** Called when the last pending response is sent; never where the connection closes before. */
  onSettled: (() => void) | undefined
  /** Sends what is left to send, and destroys the socket when its client has stopped sending. */
  end(): void
}

/** The open connections; `isClosing`: the next request of each is its last. */
export type Connections = Map<Socket, Connection> & { isClosing: boolean }
