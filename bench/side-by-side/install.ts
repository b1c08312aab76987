/** Installs and builds the peers, and weighs what each peer needs in production. */
import { copyFile, lstat, mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execute } from '../../harness/execute.ts'
import { type Peer, peersDirectory } from './peers.ts'

/** What `npm ci --omit=dev` installs. */
export interface Installed {
  packages: number
  /** All files together, in MB. */
  megabytes: number
}

const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']

// `prisma generate` downloads an engine that it does not use, unless it is told that there is one.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= process.execPath

/**
 * Installs from the lockfiles, all at the same time, and builds. The service itself is installed into `directory`,
 * where only its size counts.
 */
export async function installAll(peers: Peer[], directory: string): Promise<Installed[]> {
  process.stdout.write('installing the peers\n')
  const tools = execute('npm', ['ci', ...quietly], { cwd: peersDirectory })
  const homes = peers.map(async ({ program }) => {
    const isPeer = program.directory.startsWith(peersDirectory)
    const home = isPeer
      ? program.directory
      : await copyPackage(program.directory, join(directory, program.name))
    await execute('npm', ['ci', '--omit=dev', ...quietly], { cwd: home })
    await tools
    if (isPeer) await execute('npm', ['run', 'build', '--if-present'], { cwd: home })
    return weigh(join(home, 'node_modules'))
  })
  return Promise.all(homes)
}

async function copyPackage(from: string, to: string): Promise<string> {
  await mkdir(to)
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    await copyFile(join(from, file), join(to, file))
  }
  return to
}

async function weigh(directory: string): Promise<Installed> {
  const { packages } = JSON.parse(await readFile(join(directory, '.package-lock.json'), 'utf8'))
  return { packages: Object.keys(packages).length, megabytes: (await countBytes(directory)) / 1e6 }
}

async function countBytes(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  let bytes = 0
  for (const entry of entries) {
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size
  }
  return bytes
}
