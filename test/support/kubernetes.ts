/** Kubernetes manifests: reading them, and what Kubernetes' own API definitions say of them. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parseAllDocuments } from 'yaml'

const root = join(import.meta.dirname, '../..')

/** A document of a manifest. */
export interface Manifest {
  apiVersion: string
  kind: string
  // biome-ignore lint/suspicious/noExplicitAny: what it holds is what is to be found out
  [field: string]: any
}

/** Parses YAML as kubectl does: version 1.1, in which 0440 is octal. Throws for what is no YAML. */
export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { version: '1.1' }).map((document) => {
    const [error] = document.errors
    if (error) throw error
    return document.toJS()
  })
}

/** Reads a file of manifests; the path begins at the repository's root. */
export const readManifests = (path: string) => parseManifests(readFileSync(join(root, path), 'utf8'))

/**
 * Gives what is wrong with manifests. The schemas tell missing fields, wrong types, values and formats; they allow
 * unknown fields, which the types of the same definitions do not: TypeScript refuses them in a literal.
 */
export async function findFaults(t: Test, manifests: Manifest[]): Promise<string[]> {
  const faults: string[] = []
  for (const manifest of manifests) {
    const model = (await import(`kubernetes-models/${manifest.apiVersion}`))[manifest.kind]
    try {
      new model(manifest).validate()
    } catch (error) {
      faults.push(`${manifest.kind}: ${(error as Error).message}`)
    }
  }
  return [...faults, ...checkTypes(t, manifests)]
}

function checkTypes(t: Test, manifests: Manifest[]): string[] {
  const lines = manifests.map(
    (manifest, index) =>
      `export const m${index}: import('kubernetes-models/${manifest.apiVersion}').I${manifest.kind} = ${JSON.stringify(manifest)}`
  )
  const directory = t.testdir({ 'manifests.ts': lines.join('\n') })
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext']
  const compiler = join(root, 'node_modules/.bin/tsc')
  // tap puts a loader into NODE_OPTIONS, which the compiler cannot be loaded with.
  const command = ['-u', 'NODE_OPTIONS', compiler, ...options, 'manifests.ts']
  const { status, stdout, stderr } = spawnSync('env', command, { cwd: directory, encoding: 'utf8' })
  return status === 0 ? [] : `${stdout}${stderr}`.trimEnd().split('\n')
}
