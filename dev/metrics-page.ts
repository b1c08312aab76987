/** A page of metrics (Prometheus, "Text-based format"). */

/** Gives the value of a sample without labels; NaN where the page has none of that name. */
export function readSample(page: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1])
}
