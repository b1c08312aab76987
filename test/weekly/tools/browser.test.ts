/** The page for people in Debian's Chromium: a reader posts a plant; nothing is blocked, at any width or colour. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { failure } from '../../support/responses.ts'
import { startService, token } from '../../support/service.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
// Chromium's sandbox does not work for root.
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  timeout: 120_000,
  chromiumSandbox: process.getuid?.() !== 0
})
t.teardown(() => browser.close())

/** Runs in the page. */
const reportViolations = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
  console.error('policy:', violatedDirective, blockedURI))`

/** Opens a page, and records every complaint of its console, its requests and its policy. */
async function open(t: Test, url: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options)
  t.teardown(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(120_000)
  const complaints: string[] = []
  const { origin } = new URL(url)
  page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  page.on('requestfailed', (failed) => complaints.push(`failed: ${failed.url()}`))
  page.on('request', (sent) => {
    const isOwn = sent.url().startsWith(`${origin}/`) || sent.url().startsWith('data:')
    if (!isOwn) complaints.push(`foreign: ${sent.url()}`)
  })
  await page.addInitScript(reportViolations)
  await page.goto(url)
  await page.getByRole('button', { name: 'Execute' }).waitFor()
  return { page, complaints }
}

const tokenField = (page: Page) => page.getByLabel('Bearer token')

/** What axe finds, of any weight. */
async function findFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations, passes } = await page.evaluate<AxeResults>('axe.run()')
  if (passes.length === 0) throw new Error('axe has checked nothing')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

/** Sends the form, with this body if one is given; returns what the page shows of the response. */
async function execute(page: Page, body?: string) {
  if (body !== undefined) await page.getByLabel('Request body').fill(body)
  const responded = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Execute' }).click()
  const response = await responded
  const shown = page.locator('.live-responses-table')
  // The page keeps the last response until it shows this one: its id tells them apart.
  await shown.getByText(response.headers()['x-request-id'] as string).waitFor()
  return {
    url: response.url(),
    status: await shown.locator('tbody .response-col_status').innerText(),
    body: JSON.parse(await shown.locator('.highlight-code pre').first().innerText()),
    meaning: await page.locator('.meaning').innerText()
  }
}

t.test('a reader posts a plant, and one that is there, at each width and colour', async (t) => {
  const { url, rows } = await startService(t)
  let id = 2n ** 63n - 1n
  for (const width of [360, 768, 1280]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, complaints } = await open(t, `${url}/docs`, {
        viewport: { width, height: 800 },
        colorScheme
      })
      const name = `${width}-${colorScheme}`
      const look = async (state: string) => {
        const fits = 'document.documentElement.scrollWidth <= document.documentElement.clientWidth'
        t.ok(await page.evaluate(fits), `${name}, ${state}: fits the width`)
        t.strictSame(await findFaults(page), [], `${name}, ${state}: axe`)
      }
      await look('opened')
      await tokenField(page).fill(token)
      const body = `{"id": ${id}, "name": "Monstera", "tag": "${name}"}`
      const created = await execute(page, body)
      t.match(created, { url: `${url}/plants`, status: '200', body: { name: 'Monstera', tag: name } })
      const row = { id: `${id}`, name: 'Monstera', tag: name }
      t.strictSame(await rows('select id, name, tag from plants where id = $1', [`${id}`]), [row])
      await look('created')
      // Until here nothing was refused; Chromium's console names the 400 that follows.
      t.strictSame(complaints, [], `${name}: console`)
      const repeated = await execute(page, body)
      t.strictSame([repeated.status, repeated.body], ['400', JSON.parse(failure('DuplicatePlant').body)])
      t.equal(repeated.meaning, 'DuplicatePlant. Choose another id. Retry: never.')
      await look('refused')
      id -= 1n
    }
  }
})

t.test(
  'the link of npm run dev fills the token in: one key stores a plant, also after a reload',
  async (t) => {
    const { url, rows } = await startService(t)
    const { page, complaints } = await open(t, `${url}/docs#token=${token}`)
    for (const count of [1, 2]) {
      t.match(await execute(page), { status: '200', meaning: /^The plant is stored/ })
      t.equal((await rows('select id from plants')).length, count, 'the form has another id and key')
      await page.reload()
      await page.getByRole('button', { name: 'Execute' }).waitFor()
    }
    t.equal(new URL(page.url()).hash, '', 'the token is not in the address bar')
    t.strictSame(complaints, [])
  }
)
