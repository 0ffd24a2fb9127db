// Looks at the built pages in Debian's Chromium, in both languages and themes,
// at 1280 and 360 px, in front of a real gateway: screenshots, and a list of
// what must not be there (errors, policy violations, keys, sideways scroll).
//
//   PATCHBAY_BIN=../bin/patchbay node scripts/look.mjs [--axe] [--few] [name=path ...]
import { mkdir, readFile, rm } from 'node:fs/promises'
import { chromium } from 'playwright-core'
import { demoGateway, someCalls } from './gateway.mjs'

const all = {
  overview: '/', services: '/services', playground: '/playground', calls: '/calls', resilience: '/resilience',
  quota: '/quota', spend: '/spend', batches: '/batches', versions: '/versions', keys: '/keys', settings: '/settings', docs: '/docs/api',
  model: '/model?service=chat&id=demo-flaky', tenant: '/tenant', gateways: '/gateways',
}
// The documentation is pages of its own, which follow the language and theme of the console.
const guides = { guide: '/docs', start: '/docs/start', 'first-backend': '/docs/first-backend', traffic: '/docs/traffic', ledger: '/docs/quota', errors: '/docs/errors', missing: '/docs/nothing' }
const flags = process.argv.slice(2).filter((arg) => arg.startsWith('--'))
const named = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const pages = named.length === 0 ? all : Object.fromEntries(named.map((arg) => {
  const cut = arg.indexOf('=')
  return cut < 0 ? [arg, all[arg] ?? guides[arg]] : [arg.slice(0, cut), arg.slice(cut + 1)]
}))
const few = flags.includes('--few')
const combinations = few
  ? [['en', 'light', 1280], ['zh', 'dark', 360]]
  : ['en', 'zh'].flatMap((lang) => ['light', 'dark'].flatMap((theme) => [1280, 360].map((width) => [lang, theme, width])))

const { url: base, stop } = await demoGateway()
await someCalls(base, 2)
const profile = `/tmp/patchbay-look-${process.pid}`
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
})
await mkdir('screenshots', { recursive: true })
const axe = flags.includes('--axe') ? await readFile(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8') : ''
let findings = 0
const report = (where, what) => {
  findings++
  console.log(`${where}: ${what}`)
}

/** Waits until the page is live and all that it has asked for is there. */
async function settled(page, pending, where) {
  await page.waitForSelector('.live.live', { timeout: 240_000 }).catch(() => report(where, 'never live'))
  let quiet = 0
  while (quiet < 3) {
    await page.waitForTimeout(40)
    quiet = pending.size === 0 ? quiet + 1 : 0
  }
}

/** What is drawn badly, of what a page shows now; it runs in the page. */
function drawnBadly() {
  const found = []
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.getClientRects().length > 0 && node.closest('.sr-only, [aria-hidden=true]') === null
  const name = (node) => `${node.tagName.toLowerCase()}.${String(node.className).replaceAll(' ', '.')} "${node.textContent.trim().slice(0, 40)}"`
  const linesOf = (node) => {
    const range = document.createRange()
    range.selectNodeContents(node)
    return new Set([...range.getClientRects()].filter((rect) => rect.width > 1).map((rect) => Math.round((rect.top + rect.bottom) / 2 / 8))).size
  }
  for (const button of document.querySelectorAll('.btn, .seg button, .tag, [role=tab]')) {
    if (seen(button) && linesOf(button) > 1 && button.getBoundingClientRect().height > 44) found.push(`a button of two lines: ${name(button)}`)
  }
  // What is cut off is said in full by a tooltip.
  for (const node of document.querySelectorAll('main *, nav *, header *')) {
    if (!seen(node) || node.scrollWidth - node.clientWidth < 2 || node.clientWidth === 0 || window.getComputedStyle(node).textOverflow !== 'ellipsis' || node.matches('input, textarea, select')) continue
    if (node.closest('[title]') === null && node.querySelector('[title]') === null) found.push(`cut without a tooltip: ${name(node)}`)
  }
  // No line begins with what ends a sentence.
  const walker = document.createTreeWalker(document.querySelector('#root'), window.NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode
    for (const match of data.matchAll(/[，。；：！？、）」』】]/g)) {
      if (match.index === 0 || !seen(parentElement) || parentElement.closest('pre, code, textarea') !== null) continue
      const range = document.createRange()
      const rect = (at) => {
        range.setStart(walker.currentNode, at)
        range.setEnd(walker.currentNode, at + 1)
        return range.getBoundingClientRect()
      }
      const [before, here] = [rect(match.index - 1), rect(match.index)]
      if (here.width > 0 && here.top > before.bottom - 2) found.push(`a line begins with "${match[0]}": ${name(parentElement)}`)
    }
  }
  for (const node of document.querySelectorAll('.num, .reading, .val, td code')) {
    if (seen(node) && /\d/.test(node.textContent) && !window.getComputedStyle(node).fontVariantNumeric.includes('tabular-nums') && !/mono/i.test(window.getComputedStyle(node).fontFamily)) found.push(`digits of different widths: ${name(node)}`)
  }
  const shown = document.body.innerText
  for (const word of ['NaN', 'undefined', 'Infinity', '[object']) if (shown.includes(word)) found.push(`"${word}" in the text`)
  const scope = document.querySelector('dialog[open]') ?? document
  const primary = [...scope.querySelectorAll('.btn.pri')].filter(seen)
  if (primary.length > 1) found.push(`${primary.length} primary buttons: ${primary.map((node) => node.textContent.trim()).join(', ')}`)
  return [...new Set(found)]
}

/** Goes through all pages as a person does who clicks from one to the next. */
async function look([lang, theme, width]) {
  const page = await browser.newPage()
  await page.setViewportSize({ width, height: width === 360 ? 740 : 800 })
  await page.addInitScript(([l, t]) => {
    localStorage.setItem('patchbay.lang', l)
    localStorage.setItem('patchbay.theme', t)
  }, [lang, theme])
  let where = ''
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !where.startsWith('missing-') && report(where, `console: ${message.text()}`))
  page.on('pageerror', (error) => report(where, `error: ${error.message}`))
  const pending = new Set()
  page.on('request', (request) => !request.url().includes('/api/monitoring/live') && pending.add(request))
  for (const event of ['requestfinished', 'requestfailed']) page.on(event, (request) => pending.delete(request))
  let loaded = false
  for (const [name, path] of Object.entries(pages)) {
    if (guides[name] === path) continue
    where = `${name}-${width}-${theme}-${lang}`
    const shown = page.evaluate(() => document.querySelector('h1')?.textContent).catch(() => '')
    if (loaded) {
      const before = await shown
      await page.evaluate((to) => window.history.pushState({}, '', to), path)
      if (named.length === 0) await page.waitForFunction((old) => document.querySelector('h1')?.textContent !== old, before, { timeout: 60_000 })
    } else {
      await page.goto(new URL(path, base).href)
    }
    loaded = true
    await settled(page, pending, where)
    const text = await page.evaluate(() => document.body.innerText)
    const key = /\b(?:nav|top|live|common|error|health|breaker|palette|keys|overview|services|pg|calls|res|quota|spend|batch|budget|ver|key|set)\.[a-z][A-Za-z0-9.]+\b/.exec(text)
    if (key !== null && !/\.(go|json|md|retention|enabled|defaults)/.test(key[0])) report(where, `untranslated key ${key[0]}`)
    // Paths of the API have names in braces of their own.
    const brace = name === 'docs' ? null : /\{\w+\}/.exec(text)
    if (brace !== null) report(where, `unfilled name ${brace[0]}`)
    for (const what of await page.evaluate(drawnBadly)) report(where, what)
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    if (wide > 0) report(where, `scrolls sideways by ${wide} px`)
    if (!few) {
      if (process.env.WAIT !== undefined) await page.waitForTimeout(Number(process.env.WAIT))
      await page.screenshot({ path: `screenshots/${where}.png`, fullPage: flags.includes('--full'), timeout: 240_000 })
    }
    if (axe !== '') await runAxe(page, where)
  }
  await lookAtGuides(page, [lang, theme, width], (name) => (where = name))
  await page.close()
}

async function runAxe(page, where) {
  await page.evaluate(`if (typeof axe === 'undefined') { ${axe} }`)
  const violations = await page.evaluate("axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] }).then((results) => results.violations.map(({ impact, id, nodes }) => ({ impact, id, nodes: nodes.slice(0, 3).map((node) => node.target.join(' ')) })))")
  for (const { impact, id, nodes } of violations) report(where, `axe ${impact} ${id}: ${nodes.join(' | ')}`)
}

/** Opens the pages of the documentation without a language, as the link of an error does. */
async function lookAtGuides(page, [lang, theme, width], at) {
  for (const [name, path] of Object.entries(guides)) {
    if (named.length > 0 && pages[name] !== path) continue
    const where = `${name}-${width}-${theme}-${lang}`
    at(where)
    await page.goto(new URL(path, base).href)
    await page.waitForFunction((l) => document.documentElement.lang.startsWith(l) && document.readyState === 'complete', lang, { timeout: 60_000 }).catch(() => report(where, `not in ${lang}`))
    const seen = await page.evaluate(() => ({ theme: document.documentElement.dataset.theme, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth }))
    if (seen.theme !== theme) report(where, `is ${seen.theme}`)
    if (seen.wide > 0) report(where, `scrolls sideways by ${seen.wide} px`)
    if (!few) await page.screenshot({ path: `screenshots/${where}.png`, fullPage: flags.includes('--full'), timeout: 240_000 })
    if (axe !== '') await runAxe(page, where)
  }
}

// Two at a time: while one waits for the gateway, the other is drawn.
const queue = [...combinations]
const worker = async () => {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) await look(next)
}
await Promise.all([worker(), worker()])
await browser.close()
stop()
await rm(profile, { recursive: true, force: true })
console.log(`${findings} findings`)
process.exitCode = findings === 0 ? 0 : 1
