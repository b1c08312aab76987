/** Installs and builds the peers. */
import { execute } from '../../test/support/execute.ts'
import { type Peer, peersDirectory } from './peers.ts'

const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']

// `prisma generate` downloads an engine that it does not use, unless it is told that there is one.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= process.execPath

/** Installs from the lockfiles, all at the same time, and builds. The service itself is there. */
export async function installAll(peers: Peer[]): Promise<void> {
  process.stdout.write('installing the peers\n')
  const tools = execute('npm', ['ci', ...quietly], { cwd: peersDirectory })
  const others = peers.filter(({ program }) => program.directory.startsWith(peersDirectory))
  await Promise.all(
    others.map(async ({ program: { directory: cwd } }) => {
      await execute('npm', ['ci', '--omit=dev', ...quietly], { cwd })
      await tools
      await execute('npm', ['run', 'build', '--if-present'], { cwd })
    })
  )
}
