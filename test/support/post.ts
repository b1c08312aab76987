/** One create, by whoever runs outside of the service's own tests. */

/**
 * Creates a plant at an origin, and returns its response, such as `200 {"name":"Fern"}`. Further header fields may be given.
 * Rejects where there is no response.
 */
export async function createPlant(
  origin: string,
  token: string,
  plant: { id: number; name: string },
  fields: Record<string, string> = {}
): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...fields }
  const response = await fetch(`${origin}/plants`, { method: 'POST', headers, body: JSON.stringify(plant) })
  return `${response.status} ${await response.text()}`
}
