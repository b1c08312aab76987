/** What ships: the production packages of the lockfile. */
import { readFileSync } from 'node:fs'

/** A package of the lockfile. */
export interface Package {
  name: string
  version: string
  license: string
}

const lockfile = new URL('../package-lock.json', import.meta.url)

/** Reads the packages that ship, those of other platforms too; one that is installed twice stands here twice. */
export function readShipped(): Package[] {
  const { packages } = JSON.parse(readFileSync(lockfile, 'utf8')) as {
    packages: Record<string, { version: string; license?: string; dev?: boolean }>
  }
  return Object.entries(packages)
    .filter(([path, { dev }]) => path !== '' && !dev)
    .map(([path, { version, license = 'none declared' }]) => ({
      name: path.split('node_modules/').at(-1) as string,
      version,
      license
    }))
}
