// Measures the pages in front of 60 and 600 instances while calls come in: no task
// of the main thread takes 150 ms, the memory of the tab does not grow with the
// calls, and the keyboard gets through in a few steps. The time of a task is that
// of its thread, which a busy machine does not stretch.
//
//   PATCHBAY_BIN=../bin/patchbay [MINUTES=1] node scripts/many.mjs [instances ...] [page ...]
import { chromium } from 'playwright-core'
import { fleet } from './fleet.mjs'
import { chromiumArgs } from './gateway.mjs'

const most = 150
const minutes = Number(process.env.MINUTES ?? 1)
const pages = process.argv.slice(2).filter((arg) => Number.isNaN(Number(arg)))
const sizes = process.argv.slice(2).map(Number).filter((size) => size > 0)
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: [...chromiumArgs, '--js-flags=--expose-gc'] })
let failed = 0
const check = (isTrue, what) => {
  if (!isTrue) failed++
  console.log(`${isTrue ? 'ok  ' : 'FAIL'} ${what}`)
}

/** The longest task of the page's main thread, in milliseconds, while the steps are made. */
async function longest(page, steps) {
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'blink.user_timing'] })
  const mark = () => page.evaluate(() => performance.mark('measured'))
  await mark()
  await steps().catch((error) => check(false, String(error.message).split('\n')[0]))
  await mark() // a page that was loaded anew may have another process
  const trace = JSON.parse((await browser.stopTracing()).toString())
  // Tabs that were closed leave their processes behind for a while: the mark is in that of the page.
  const threads = new Set(trace.traceEvents.filter((event) => event.name === 'measured').map((event) => `${event.pid} ${event.tid}`))
  const tasks = trace.traceEvents.filter((event) => event.ph === 'X' && event.tdur !== undefined && threads.has(`${event.pid} ${event.tid}`) && /RunTask$/.test(event.name))
  const worst = tasks.reduce((a, b) => (b.tdur > a.tdur ? b : a), { tdur: 0, dur: 0 })
  return { thread: Math.round(worst.tdur / 1000), clock: Math.round(Math.max(0, ...tasks.map((task) => task.dur)) / 1000), tasks: tasks.length }
}

/** The instances of the list in their order, by scrolling through it: only rows in sight are in the page. */
async function rowsOf(page) {
  const rows = new Map()
  for (let at = 0, end = 0; at <= end; at += 600) {
    await page.evaluate((to) => window.scrollTo(0, to), at)
    await page.waitForFunction(() => [...document.querySelectorAll('.svc .gap')].every((gap) => gap.getBoundingClientRect().bottom <= 0 || gap.getBoundingClientRect().top >= window.innerHeight))
    const seen = await page.evaluate(() => ({ end: document.body.scrollHeight, rows: [...document.querySelectorAll('.svc tr[data-id]')].map((row) => [row.ariaRowIndex, row.querySelector('.nmad').title]) }))
    end = seen.end
    for (const [index, id] of seen.rows) rows.set(Number(index), id)
  }
  await page.evaluate(() => window.scrollTo(0, 0))
  return [...rows].sort(([a], [b]) => a - b).map(([, id]) => id)
}

/** The lines of the list below its head, as the table says. */
const linesOf = (page) => page.locator('.svc').evaluate((table) => Number(table.ariaRowCount) - 1)

/** How often Tab is pressed from the filter to what is behind the list, or Infinity. */
async function tabsThrough(page, filter) {
  await page.locator(filter).focus()
  for (let presses = 1; presses <= 80; presses++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate((from) => document.activeElement === document.body || (document.querySelector(from).compareDocumentPosition(document.activeElement) & 2) !== 0, filter)) return presses
  }
  return Number.POSITIVE_INFINITY
}

/** The page of the services: filter, order, groups, keys. What is shown is in the address. */
async function services(page, { url, models, instances }, measure) {
  await measure('load', async () => {
    await page.goto(`${url}/services`)
    await page.waitForSelector('.svc .slider')
    await page.waitForTimeout(2000)
  })
  await measure('live for 5 s', () => page.waitForTimeout(5000))
  const configured = await rowsOf(page)
  check(configured.length === instances, `${configured.length} rows`)
  await measure('sort by each column', async () => {
    for (const head of await page.locator('.sortb').all()) {
      await head.click()
      await page.waitForTimeout(150)
    }
  })
  check(new URL(page.url()).searchParams.get('sort') === '-errors', 'the order is in the address')
  await page.locator('.sortb', { hasText: 'Instance' }).click()
  await page.waitForFunction(() => document.querySelector('[aria-sort=ascending]') !== null)
  const sorted = await rowsOf(page)
  const names = sorted.map((id) => id.split('@')[0])
  check(sorted.length === instances && names.every((name, i) => i === 0 || new Intl.Collator('en', { numeric: true }).compare(names[i - 1], name) <= 0), 'sorted by name')
  await measure('group by model, host, state', async () => {
    for (const by of ['model', 'host', 'state', 'host']) {
      await page.getByLabel('Group by').selectOption(by)
      await page.waitForTimeout(400)
    }
  })
  const hosts = Math.max(6, Math.ceil(instances / 15))
  check((await linesOf(page)) === hosts + instances && (await rowsOf(page)).length === instances, `${hosts} hosts`)
  await page.reload()
  await page.waitForSelector('.grouphead')
  check((await linesOf(page)) === hosts + instances && (await page.locator('[aria-sort=ascending]').count()) === 1, 'order and groups are there after a reload')
  await measure('filter', async () => {
    await page.locator('input[data-filter]').pressSequentially(models[3], { delay: 60 })
    await page.waitForTimeout(500)
  })
  const found = await rowsOf(page)
  check(found.length > 0 && found.length < instances && found.every((id) => id.startsWith(models[3])), `${found.length} rows of ${models[3]}`)
  await page.goto(`${url}/services`)
  await page.waitForSelector('.svc .slider')
  await measure('scroll to the end and back', async () => {
    for (const to of [0.25, 0.5, 0.75, 1, 0.5, 0]) {
      await page.evaluate((share) => window.scrollTo(0, document.body.scrollHeight * share), to)
      await page.waitForTimeout(200)
    }
  })
  // Arrows walk the rows, Enter opens one, also of those that were not in sight.
  await page.locator('.svc .nmad').first().focus()
  await page.keyboard.press('ArrowDown')
  check((await page.evaluate(() => document.activeElement.title)) === configured[1], 'an arrow walks to the next row')
  await page.locator('.svc .nmad').first().focus()
  await page.keyboard.press('End')
  check((await page.evaluate(() => document.activeElement.title)) === configured.at(-1), 'End walks to the last row')
  await page.keyboard.press('ArrowUp')
  check((await page.evaluate(() => document.activeElement.title)) === configured.at(-2), 'an arrow walks back from there')
  for (let i = 0; i < 60; i++) await page.keyboard.press('ArrowUp')
  check((await page.evaluate(() => document.activeElement.title)) === configured.at(Math.max(-62, -instances)), 'and to rows that were not drawn')
  await page.keyboard.press('Home')
  check((await page.evaluate(() => document.activeElement.title)) === configured[0], 'Home walks to the first row')
  await page.keyboard.press('End')
  await measure('open a drawer', async () => {
    await page.keyboard.press('Enter')
    await page.waitForSelector('.drawer')
  })
  check((await page.evaluate(() => document.activeElement.className)) === 'drawer', 'the drawer takes the focus')
  await page.evaluate(() => window.scrollTo(0, 0))
  await page.keyboard.press('Escape')
  await page.waitForSelector('.drawer', { state: 'detached' })
  check((await page.evaluate(() => document.activeElement.title)) === configured.at(-1), 'and gives it back')
  await page.emulateMedia({ media: 'print' })
  await page.waitForFunction((rows) => document.querySelectorAll('.svc tr[data-id]').length === rows, instances)
  check((await page.locator('.svc .gap').count()) === 0, 'paper has all rows')
  await page.emulateMedia({ media: null })
  await page.waitForFunction(() => document.querySelector('.svc .gap') !== null)
  const tabs = await tabsThrough(page, 'input[data-filter]')
  check(tabs <= 40, `${tabs} times Tab from the filter to the end of the page`)
}

async function overview(page, { url }, measure) {
  await measure('load', async () => {
    await page.goto(url)
    await page.waitForSelector('.jr2')
    await page.waitForTimeout(2000)
  })
  await measure('live for 5 s', () => page.waitForTimeout(5000))
  check((await page.locator('.bay .jr').count()) > 8, 'the bay has rows')
  await measure('the bay as a table, sorted', async () => {
    await page.getByRole('button', { name: 'Table' }).click()
    for (const head of await page.locator('.bay-table-only .sortb').all()) {
      await head.click()
      await page.waitForTimeout(150)
    }
  })
  await page.goto(url)
  await page.waitForSelector('.jr2')
  await page.locator('.jr').first().focus()
  await page.keyboard.press('ArrowDown')
  check((await page.evaluate(() => document.activeElement.matches('.jr:nth-child(2)'))), 'an arrow walks the bay')
}

/** The list of instances on paper and on a phone, and from its end to its begin. */
async function list(page, { url, instances }, measure) {
  const drawn = () => page.locator('.svc tr[data-id]').count()
  await page.goto(`${url}/services?group=host`)
  await page.waitForSelector('.svc .mtd')
  check((await drawn()) <= 60, `${await drawn()} rows are drawn`)
  await measure('scroll to the end and back', async () => {
    for (const to of [0.25, 0.5, 0.75, 1, 0.5, 0]) {
      await page.evaluate((share) => window.scrollTo(0, document.body.scrollHeight * share), to)
      await page.waitForTimeout(200)
    }
  })
  await page.emulateMedia({ media: 'print' })
  await page.waitForFunction((rows) => document.querySelectorAll('.svc tr[data-id]').length === rows, instances)
  check((await page.locator('.gap').count()) === 0, 'paper has all rows')
  await page.emulateMedia({ media: null })
  // On a phone the rows of many are equally high, whatever has failed: the room of those that are not drawn is known.
  await page.setViewportSize({ width: 390, height: 844 })
  await page.waitForFunction(() => document.querySelector('.svc .gap') !== null)
  const heights = new Set()
  for (const to of [0, 0.1, 0.2, 0.3, 0.4]) {
    await page.evaluate((share) => window.scrollTo(0, document.body.scrollHeight * share), to)
    await page.waitForTimeout(300)
    for (const height of await page.locator('.svc tr[data-id]:not([aria-busy])').evaluateAll((rows) => rows.map((row) => Math.round(row.getBoundingClientRect().height)))) heights.add(height)
  }
  check(heights.size === 1, `rows of a phone are ${[...heights].join(', ')} px high`)
}

const visits = { services, overview, list }

/** What is kept of calls, in the page (maxCalls of live/store.ts). */
const kept = 10_000

/** 200 calls a second for minutes: once the page has all the calls that it keeps, what the tab holds does not grow with them. */
async function manyCalls(page, { url, send }, path) {
  await page.goto(url + path)
  await page.waitForSelector('.live.live')
  const session = await page.context().newCDPSession(page)
  const heap = async () => {
    await page.evaluate(() => globalThis.gc())
    const { metrics } = await session.send('Performance.getMetrics')
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]))
  }
  await session.send('Performance.enable')
  const empty = await heap()
  const fill = send(800)
  while (fill.sent() < 1.2 * kept) await page.waitForTimeout(500)
  const filled = fill()
  const stop = send(200)
  await page.waitForTimeout(10_000)
  const before = await heap()
  const seen = []
  const worst = { thread: 0, clock: 0 }
  for (let i = 0; i < 2 * minutes; i++) {
    const { thread, clock } = await longest(page, () => page.waitForTimeout(15_000))
    worst.thread = Math.max(worst.thread, thread)
    worst.clock = Math.max(worst.clock, clock)
    await page.waitForTimeout(15_000)
    seen.push(await heap())
  }
  const after = seen.at(-1)
  const sent = filled + stop()
  const mb = (bytes) => (bytes / 1_000_000).toFixed(1)
  check(worst.thread < most, `${path} with 200 calls a second for ${minutes} minutes: ${worst.thread} ms (${worst.clock} ms on the clock)`)
  check(after.JSHeapUsedSize - before.JSHeapUsedSize < 8_000_000 && after.Nodes - before.Nodes < 2000, `${path} after ${sent} calls: ${mb(empty.JSHeapUsedSize)} MB without calls, ${mb(before.JSHeapUsedSize)} MB, then each half minute ${seen.map(({ JSHeapUsedSize }) => mb(JSHeapUsedSize)).join(', ')} MB; ${before.Nodes}, then ${after.Nodes} nodes`)
}

const all = sizes.length === 0 ? [60, 600] : sizes
for (const instances of all) {
  const gateway = await fleet(instances)
  const quiet = gateway.send(50)
  for (const [name, visit] of Object.entries(visits).filter(([name]) => pages.length === 0 || pages.includes(name))) {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
    await visit(page, { ...gateway, instances }, async (what, steps) => {
      const { thread, clock, tasks } = await longest(page, steps)
      check(thread < most && tasks > 0, `${instances} instances, ${name}, ${what}: ${thread} ms (${clock} ms on the clock)`)
    })
    await page.close()
  }
  quiet()
  // The calls come to the largest of them: ten minutes are long enough once.
  if (instances === Math.max(...all) && (pages.length === 0 || pages.includes('traffic'))) {
    for (const path of ['/calls', '/']) {
      const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
      await manyCalls(page, gateway, path)
      await page.close()
    }
  }
  await gateway.stop()
}
await browser.close()
process.exitCode = failed === 0 ? 0 : 1
