/** Checks that the mutants still break the sources: each of their edits finds its place. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { breakSource, mutants } from './mutants.ts'

for (const mutant of mutants)
  try {
    breakSource(readFileSync(join(import.meta.dirname, '../../src', mutant.file), 'utf8'), mutant)
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
