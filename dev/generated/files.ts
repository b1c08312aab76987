/** Every file of the repository that is made from the sources. */
import { writeDocument } from '../../src/openapi/document.ts'
import { writeConfigurationPage } from './configuration-page.ts'
import { writeEnvExample } from './env-example.ts'
import { writeErrorsPage } from './errors-page.ts'

/** Gives the text of each file by its path from the repository's root. */
export async function generateFiles(): Promise<Map<string, string>> {
  return new Map([
    ['docs/openapi.json', writeDocument('')],
    ['docs/errors.md', await writeErrorsPage()],
    ['docs/configuration.md', writeConfigurationPage()],
    ['.env.example', writeEnvExample()]
  ])
}
