/** Creates a plant at an origin, and returns its response, such as `200 {"name":"Fern"}`. Rejects where there is none. */
export async function createPlant(
  origin: string,
  token: string,
  plant: { id: number; name: string }
): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const response = await fetch(`${origin}/plants`, {
    method: 'POST',
    headers,
    body: JSON.stringify(plant)
  })
  return `${response.status} ${await response.text()}`
}
