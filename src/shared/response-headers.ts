/**
 * The header fields of every response, besides its request's id: it must not be cached, has the type that it claims, and
 * may load and run nothing if a browser shows it as a page. Fields about TLS are the balancer's.
 */
export const responseHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff'
}
