/** The version of this build: package.json has it, and nothing else. */
import { readFileSync } from 'node:fs'

/** Such as 1.0.0 (Semantic Versioning). */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
)
