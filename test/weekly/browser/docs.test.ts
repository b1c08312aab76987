/** The page for people in Debian's Chromium: a reader posts a plant; nothing is blocked, at any width or colour. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { AxeResults } from 'axe-core'
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startService, token } from '../../support/service.ts'
import { catalogue } from '../../../src/failures/catalogue.ts'
import { formatMessage } from '../../../src/failures/failure.ts'

const limitMs = 60_000
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
if (!existsSync(executablePath)) throw new Error(`there is no ${executablePath}: set CHROMIUM`)

const axe = readFileSync(join(import.meta.dirname, 'node_modules/axe-core/axe.min.js'), 'utf8')
const screenshots = join(import.meta.dirname, '../../.data/screenshots')
await mkdir(screenshots, { recursive: true })
// Chromium's sandbox does not work for root.
const browser = await chromium.launch({
  executablePath,
  args: ['--host-resolver-rules=MAP plants.test 127.0.0.1'],
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

const tokenField = (page: Page) => page.getByLabel('Bearer token')
const bodyField = (page: Page) => page.getByLabel('Request body')
const keyField = (page: Page) => page.getByPlaceholder('Idempotency-Key')

/** What axe finds, of any weight. */
async function findFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations, passes } = await page.evaluate<AxeResults>('axe.run()')
  if (passes.length === 0) throw new Error('axe has checked nothing')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

/** Sends the form, with this body if one is given; returns what the page shows of the response. */
async function execute(page: Page, body?: string) {
  if (body !== undefined) await bodyField(page).fill(body)
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
    meaning: await page.locator('.meaning').innerText(),
    curl: await page.locator('.curl').first().innerText()
  }
}

const hasNoOverflow = (page: Page) =>
  page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth')

const widths = [360, 768, 1280]
const schemes = ['light', 'dark'] as const

t.test('a reader posts a plant, another one, and one that is there, at each width and colour', async (t) => {
  const { url, rows } = await startService(t)
  let id = 2n ** 63n - 1n
  for (const width of widths) {
    for (const colorScheme of schemes) {
      const { page, complaints } = await open(t, `${url}/docs`, {
        viewport: { width, height: 800 },
        colorScheme
      })
      const name = `${width}-${colorScheme}`
      const background = await page.evaluate('getComputedStyle(document.documentElement).backgroundColor')
      t.equal(background, colorScheme === 'light' ? 'rgba(0, 0, 0, 0)' : 'rgb(28, 32, 34)', `${name}: colour`)
      const look = async (state: string) => {
        t.ok(await hasNoOverflow(page), `${name}, ${state}: fits the width`)
        t.strictSame(await findFaults(page), [], `${name}, ${state}: axe`)
        await page.screenshot({ path: join(screenshots, `${name}-${state}.png`), fullPage: true })
      }
      await look('opened')

      await tokenField(page).fill(token)
      const body = `{"id": ${id}, "name": "Monstera", "tag": "${name}"}`
      const created = await execute(page, body)
      t.equal(created.url, `${url}/plants`)
      t.equal(created.status, '200', name)
      t.match(created.meaning, /^The plant is stored/)
      t.strictSame(created.body, { name: 'Monstera', tag: name })
      t.match(created.curl, `-d '${body}'`)
      t.match(created.curl, `'Authorization: Bearer ${token}'`)
      t.strictSame(await rows('select id, name, tag from plants where id = $1', [`${id}`]), [
        { id: `${id}`, name: 'Monstera', tag: name }
      ])
      await look('created')
      t.equal((await execute(page)).status, '200', `${name}: the form has another id and key`)
      // Until here nothing was refused; Chromium's console names the 400 that follows.
      t.strictSame(complaints, [], `${name}: console`)

      const repeated = await execute(page, body)
      t.equal(repeated.status, '400')
      t.strictSame(repeated.body, { error: 409, message: catalogue.DuplicatePlant.message })
      t.equal(repeated.meaning, 'DuplicatePlant. Choose another id. Retry: never.')
      await look('refused')
      t.strictSame(
        complaints.map((text) => text.replace(/ \(.*/, '')),
        ['error: Failed to load resource: the server responded with a status of 400'],
        `${name}: console`
      )
      id -= 1n
    }
  }
})

t.test('each load and each success bring an id and a key of their own; a replay is told', async (t) => {
  const { url } = await startService(t)
  const { page } = await open(t, `${url}/docs`)
  const seen = new Set<string>()
  const note = async () => {
    const { id } = JSON.parse(await bodyField(page).inputValue())
    t.ok(Number.isSafeInteger(id))
    seen.add(String(id)).add(await keyField(page).inputValue())
  }
  await note()
  await page.reload()
  await tokenField(page).fill(token)
  const [body, key] = [await bodyField(page).inputValue(), await keyField(page).inputValue()]
  await note()
  t.equal((await execute(page)).status, '200')
  await note()
  t.equal(seen.size, 6)
  await keyField(page).fill(key)
  t.match((await execute(page, body)).meaning, 'An earlier request with this key had stored the plant.')
})

t.test('the link of npm run dev fills the token in: one click, or one key, stores a plant', async (t) => {
  const { url, rows } = await startService(t)
  const { page, complaints } = await open(t, `${url}/docs#token=${token}`)
  for (const _ of ['at first', 'after a reload']) {
    await page.getByRole('button', { name: 'Execute' }).focus()
    const responded = page.waitForResponse((response) => response.request().method() === 'POST')
    await page.keyboard.press('Enter')
    t.equal((await responded).status(), 200)
    // A reload before would cut the response off.
    await page.locator('.meaning.good').waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Execute' }).waitFor()
  }
  t.equal((await rows('select id from plants')).length, 2)
  t.equal(new URL(page.url()).hash, '', 'the token is not in the address bar')
  await tokenField(page).fill('another')
  await page.reload()
  t.equal(await tokenField(page).inputValue(), 'another')
  t.strictSame(complaints, [])
})

t.test('from another machine, in clear text, no link fills a token in; all else works', async (t) => {
  const { url } = await startService(t)
  const { page, complaints } = await open(t, `${url.replace('127.0.0.1', 'plants.test')}/docs#token=${token}`)
  t.equal(await tokenField(page).inputValue(), '')
  await tokenField(page).fill(token)
  t.equal((await execute(page)).status, '200')
  t.strictSame(complaints, [])
})

t.test('without a token the page says where one comes from; a typed one outlives a reload', async (t) => {
  const { url } = await startService(t)
  const { page } = await open(t, `${url}/docs`)
  const hint = page.locator('#token-hint')
  t.match(await hint.innerText(), /npm run dev.*npm run token/s)
  const { body, meaning } = await execute(page)
  t.strictSame(body, { error: 401, message: catalogue.MissingToken.message })
  t.equal(meaning, 'MissingToken. Send Authorization: Bearer <token>. Retry: never.')
  await tokenField(page).fill(token)
  t.notMatch(await hint.innerText(), 'npm')
  await page.reload()
  t.equal((await execute(page)).status, '200')
  await tokenField(page).fill('')
  t.strictSame((await execute(page)).body, { error: 401, message: catalogue.MissingToken.message })
})

t.test('it shows the exact bounds of an id, and failures in groups, folded on a phone', async (t) => {
  const { url } = await startService(t)
  for (const width of [360, 1280]) {
    const { page, complaints } = await open(t, `${url}/`, { viewport: { width, height: 800 } })
    await page.locator('.models').getByText('from -9223372036854775808 to 9223372036854775807').waitFor()
    t.notMatch(await page.locator('body').innerText(), /\d{15}6000\b/, 'no rounded number')
    const groups = page.locator('.response[data-code="400"] details')
    t.strictSame(await groups.locator('summary').allInnerTexts(), [
      'Correct the request',
      'Retry',
      'Ask the operator'
    ])
    const unavailable = groups.getByText(formatMessage(catalogue.Unavailable, true))
    t.equal(await unavailable.isVisible(), width > 640)
    if (width < 640) await groups.getByText('Retry', { exact: true }).click()
    t.ok(await unavailable.isVisible())
    t.strictSame(complaints, [])
  }
})

t.test('below a path of a balancer, with BASE_PATH, it posts to the right place', async (t) => {
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
    await tokenField(page).fill(token)
    const response = await execute(page, `{"id": ${index}, "name": "Fern"}`)
    t.equal(response.url, `${outside}/v1/plants`)
    t.equal(response.status, '200')
    t.strictSame(complaints, [])
  }
  t.strictSame(await rows('select id from plants order by id'), [{ id: '0' }, { id: '1' }])
})
