/** Reads the Kubernetes manifests. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'

const root = join(import.meta.dirname, '../..')

/** A document of a manifest. */
export interface Manifest {
  apiVersion: string
  kind: string
  // biome-ignore lint/suspicious/noExplicitAny: the tests find out what it holds
  [field: string]: any
}

/** Parses YAML as kubectl does: version 1.1, in which 0440 is octal. Throws for what is not YAML. */
export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { version: '1.1' }).map((document) => {
    const [error] = document.errors
    if (error) throw error
    return document.toJS()
  })
}

/** The directory of the manifests, from the repository's root. */
export const directory = 'deploy/kubernetes'

/** Reads the manifests that kustomizations put together. */
export function readPlain(): Manifest[] {
  const files = `${directory}/{base,migration,monitoring}/*.yaml`
  return globSync(files, { cwd: root, exclude: ['**/kustomization.yaml'] }).flatMap((path) =>
    parseManifests(readFileSync(join(root, path), 'utf8'))
  )
}

/** Returns the one of this kind, or the first of them. */
export const findKind = (manifests: Manifest[], kind: string) =>
  manifests.find((one) => one.kind === kind) as Manifest
