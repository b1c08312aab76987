/** The header fields of every answer, whether Fastify writes it or we do. */

/**
 * Gives the fields for the answer to a request: its id, and that the answer is no page (content-security-policy, for a
 * browser that shows one all the same), is of the type that it says, and is kept by no cache. What speaks of TLS is
 * the balancer's to say.
 */
export function answerHeaders(requestId: string) {
  return {
    'x-request-id': requestId,
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff'
  }
}
