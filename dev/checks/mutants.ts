/** Checks that the simulation's mutants still break the sources: the text of each edit is there once. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { edit, mutants } from '../../test/simulation/mutants.ts'

for (const each of mutants.flatMap(({ edits }) => edits))
  edit(readFileSync(join(import.meta.dirname, '../../src', each[0]), 'utf8'), each)
