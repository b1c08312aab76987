/** docs/architecture.md shows the code as it is: its folders, and the statements of a create. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createPlants } from '../src/plants/statements.ts'

const root = join(import.meta.dirname, '..')
const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ').trim()

t.test('the code map has each folder of src', async (t) => {
  const entries = readdirSync(join(root, 'src'), { withFileTypes: true })
  for (const entry of entries.filter((entry) => entry.isDirectory()))
    t.match(page, `|\`${entry.name}/\`|`, entry.name)
})

t.test('the statements of a create are there, whatever columns a release adds', async (t) => {
  const row = { id: 1n, name: 'n', write_id: '00000000-0000-4000-8000-000000000000' }
  for (const rows of [[row], [row, row]]) {
    const { name, text } = createPlants(rows, 25)
    t.ok(oneLine(page).includes(oneLine(text.slice(text.indexOf('where')))), name)
  }
})
