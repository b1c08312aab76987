/** The page for people in Debian's Chromium: a reader posts a plant; nothing is blocked, at any width or colour. */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { scaled } from '../../dev/slowness.ts'
import { startService, token } from '../support/service.ts'

const limitMs = scaled(60_000)
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
if (!existsSync(executablePath)) throw new Error(`there is no ${executablePath}: set CHROMIUM`)

const screenshots = join(import.meta.dirname, '../../.data/screenshots')
await mkdir(screenshots, { recursive: true })
// Chromium's sandbox does not work for root.
const browser = await chromium.launch({
  executablePath,
  timeout: scaled(120_000),
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
  page.setDefaultTimeout(limitMs)
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

async function authorize(page: Page) {
  await page.getByRole('button', { name: 'Authorize', exact: true }).click()
  const dialog = page.locator('.dialog-ux')
  await dialog.getByRole('textbox').fill(token)
  await dialog.getByRole('button', { name: 'Apply credentials' }).click()
  await dialog.getByRole('button', { name: 'Close', exact: true }).click()
}

/** Sends a body by the form, and returns the status and the body that the page shows. */
async function execute(page: Page, body: string) {
  await page.locator('textarea').first().fill(body)
  const responded = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Execute' }).click()
  const response = await responded
  const shown = page.locator('.live-responses-table')
  // The page keeps the last response until it shows this one: its id tells them apart.
  await shown.getByText(response.headers()['x-request-id'] as string).waitFor()
  return {
    url: response.url(),
    status: await shown.locator('tbody .response-col_status').innerText(),
    body: JSON.parse(await shown.locator('.highlight-code code').first().innerText()),
    curl: await page.locator('.curl').first().innerText()
  }
}

const hasNoOverflow = (page: Page) =>
  page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth')

const widths = { phone: { width: 390, height: 844 }, desktop: { width: 1440, height: 900 } }
const schemes = ['light', 'dark'] as const

t.test('a reader authorises, posts a plant, and posts it again', async (t) => {
  const { url, rows } = await startService(t)
  let id = 2n ** 63n - 1n
  for (const [device, viewport] of Object.entries(widths)) {
    for (const colorScheme of schemes) {
      const { page, complaints } = await open(t, `${url}/docs`, { viewport, colorScheme })
      const name = `${device}-${colorScheme}`
      const background = await page.evaluate('getComputedStyle(document.documentElement).backgroundColor')
      t.equal(background, colorScheme === 'light' ? 'rgba(0, 0, 0, 0)' : 'rgb(28, 32, 34)', `${name}: colour`)
      t.ok(await hasNoOverflow(page), `${name}: fits the width`)
      await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true })

      await authorize(page)
      const body = `{"id": ${id}, "name": "Monstera", "tag": "${name}"}`
      const created = await execute(page, body)
      t.equal(created.url, `${url}/plants`)
      t.equal(created.status, '200', name)
      t.strictSame(created.body, { name: 'Monstera', tag: name })
      t.match(created.curl, `-d '${body}'`)
      t.match(created.curl, `'Authorization: Bearer ${token}'`)
      t.strictSame(await rows('select id, name, tag from plants where id = $1', [`${id}`]), [
        { id: `${id}`, name: 'Monstera', tag: name }
      ])
      t.ok(await hasNoOverflow(page), `${name}: fits the width with a response`)
      await page.screenshot({ path: join(screenshots, `${name}-created.png`), fullPage: true })
      // Until here nothing was refused; Chromium's console names the 400 that follows.
      t.strictSame(complaints, [], `${name}: console`)

      const repeated = await execute(page, body)
      t.equal(repeated.status, '400')
      t.strictSame(repeated.body, { error: 409, message: 'a plant with this id already exists' })
      t.strictSame(
        complaints.map((text) => text.replace(/ \(.*/, '')),
        ['error: Failed to load resource: the server responded with a status of 400'],
        `${name}: console`
      )
      id -= 1n
    }
  }
})

t.test('the page shows the exact bounds of an id, and each failure by its name', async (t) => {
  const { url } = await startService(t)
  const { page, complaints } = await open(t, `${url}/`)
  const schemas = page.locator('.models')
  await schemas.getByText('from -9223372036854775808 to 9223372036854775807').waitFor()
  const failures = page.locator('.response[data-code="400"] select').last()
  await failures.selectOption({ label: '409: a plant with this id already exists' })
  await page.locator('.response[data-code="400"] .example').getByText('409').first().waitFor()
  t.notMatch(await page.locator('body').innerText(), /\d{15}6000\b/, 'no rounded number')
  t.strictSame(complaints, [])
})

t.test('without a token the page shows 401', async (t) => {
  const { url } = await startService(t)
  const { page } = await open(t, `${url}/docs`)
  const { body } = await execute(page, '{"id": 1, "name": "Fern"}')
  t.strictSame(body, { error: 401, message: 'a bearer token is required' })
})

t.test(
  'behind a balancer that serves it below a path, with BASE_PATH, it posts to the right place',
  async (t) => {
    const { url, rows } = await startService(t, { BASE_PATH: '/v1' })
    const balancer = createServer((incoming, outgoing) => {
      const { method, headers, url: path = '' } = incoming
      if (!path.startsWith('/store/')) return void outgoing.writeHead(404).end()
      const passed = request(`${url}${path.slice('/store'.length)}`, { method, headers }, (response) => {
        outgoing.writeHead(response.statusCode as number, response.headers)
        response.pipe(outgoing)
      })
      incoming.pipe(passed)
    }).listen(0, '127.0.0.1')
    t.teardown(() => {
      balancer.closeAllConnections()
      balancer.close()
    })
    await new Promise((resolve) => balancer.once('listening', resolve))
    const outside = `http://127.0.0.1:${(balancer.address() as AddressInfo).port}/store`
    for (const [index, path] of ['/', '/docs'].entries()) {
      const { page, complaints } = await open(t, `${outside}${path}`)
      await authorize(page)
      const response = await execute(page, `{"id": ${index}, "name": "Fern"}`)
      t.equal(response.url, `${outside}/v1/plants`)
      t.equal(response.status, '200')
      t.strictSame(complaints, [])
    }
    t.strictSame(await rows('select id from plants order by id'), [{ id: '0' }, { id: '1' }])
  }
)
