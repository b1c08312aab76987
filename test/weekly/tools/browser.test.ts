/** The page for people in Debian's Chromium: a reader posts a plant, and nothing is blocked. */
import { chromium } from 'playwright-core'
import t, { type Test } from 'tap'
import { startService, token } from '../../support/service.ts'

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
async function open(t: Test, url: string) {
  const context = await browser.newContext()
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

t.test('a reader posts a plant with a token, and the page has complained of nothing', async (t) => {
  const { url, rows } = await startService(t)
  const { page, complaints } = await open(t, `${url}/docs`)
  await page.getByRole('button', { name: 'Authorize' }).first().click()
  const dialog = page.locator('.dialog-ux')
  await dialog.locator('input').fill(token)
  await dialog.getByRole('button', { name: 'Apply credentials' }).click()
  await dialog.getByRole('button', { name: 'Close', exact: true }).click()
  const id = String(2n ** 63n - 1n)
  await page.locator('.body-param__text').fill(`{"id": ${id}, "name": "Monstera"}`)
  const responded = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Execute' }).click()
  const response = await responded
  t.strictSame([response.url(), response.status()], [`${url}/plants`, 200])
  t.strictSame(await rows('select id, name from plants'), [{ id, name: 'Monstera' }])
  t.strictSame(complaints, [])
})
