// Looks at the built pages in Debian's Chromium, in both languages and themes, at
// 1440, 1024 and 390 px, in front of real gateways with data, as every role, and at
// every drawer, dialog and menu: screenshots, and a list of what must not be there (errors, policy
// violations, keys, findings of axe, what is cut, what scrolls sideways, what a
// finger cannot hit, a toast that covers a button, navigation on paper, English in
// the Chinese console).
//
//   PATCHBAY_BIN=../bin/patchbay node scripts/look.mjs [--few] [--only=en-light-1440,zh-dark-390] [--shots] [part of a place's name]
import { mkdir, readFile } from 'node:fs/promises'
import { chromium } from 'playwright-core'
import { chromiumArgs, demoGateway, emptyGateway, fileOf, guardedGateway, peopleRoles, someCalls, someData, tokenRoles } from './gateway.mjs'
import { badlyDrawn, cutColumns, englishIn, offScreen, smallTargets, coveredByToast } from './marks.mjs'

const flags = process.argv.slice(2).filter((arg) => arg.startsWith('--'))
const wanted = process.argv.slice(2).find((arg) => !arg.startsWith('--')) ?? ''
const few = flags.includes('--few')
const all = ['en', 'zh'].flatMap((lang) => ['light', 'dark'].flatMap((theme) => [1440, 1024, 390].map((width) => [lang, theme, width])))
const only = flags.find((flag) => flag.startsWith('--only='))?.slice(7)
const combinations = only !== undefined ? all.filter((one) => only.split(',').includes(one.join('-'))) : few ? [['en', 'light', 1440], ['zh', 'dark', 390]] : all

// The traffic of the demo does not displace the calls that are looked at.
const demo = await demoGateway('--set', 'quota.enabled=true', '--set', 'prices.models=[{model: "*", input: 300, output: 900}]', '--set', 'batches.enabled=true', '--config', await fileOf('runs: { enabled: true, limits: { cost: 5000 } }'), '--set', 'monitoring.calls=20000')
const [guarded, bare] = await Promise.all([guardedGateway(), few ? null : emptyGateway()])
await someData(demo.url)
await someCalls(demo.url, 2)
for (const model of ['demo-chat', 'demo-chat', 'demo-down']) {
  await fetch(`${demo.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-router-run': 'nightly' }, body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.arrayBuffer())
}
const { id: instance } = (await (await fetch(`${demo.url}/api/monitoring/instances`)).json()).services.chat.instances.find((one) => one.id.startsWith('demo-flaky'))
const { calls } = await (await fetch(`${demo.url}/api/monitoring/calls?outcome=failed&limit=1`)).json()

const press = (selector) => (page) => page.locator(selector).first().click()
const menu = (page) => page.locator('[role=menu]').waitFor()
const dialog = (page) => page.locator('dialog[open]').waitFor()
const drawer = (page) => page.locator('.drawer').waitFor()
const row = (page) => page.locator('.svc tr', { hasText: 'demo-claude' })
const edit = `/services?edit=${encodeURIComponent(`chat/${instance}`)}`

/** One more call that fails: what failed more than a quarter of an hour ago is not named. */
const fail = () => fetch(`${demo.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'demo-down', messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.arrayBuffer())

/** A row of a failed call says why, and then where, which gives way to the reason. */
async function reasonFirst(page) {
  await fail()
  const cell = page.locator('.crow .why:has(code)').first()
  await cell.waitFor()
  const [why, where] = await cell.evaluate((node) =>
    [...node.children].map((part) => {
      const { left, width } = part.getBoundingClientRect()
      const range = document.createRange()
      range.selectNodeContents(part)
      // A part of a pixel that is missing costs the last letters.
      return { left, width, isCut: range.getBoundingClientRect().width > width + 0.02 }
    }),
  )
  if (why.left >= where.left || (why.isCut && where.width > 1)) throw new Error('the address takes room from the reason of a failed call')
}

/** What is wrong with an instance has the width of its row. */
async function wideCauses(page) {
  await fail()
  const cell = page.locator('.svc tr.cause > td').first()
  await cell.waitFor()
  const [own, row] = await cell.evaluate((node) => [node.clientWidth, node.closest('tr').previousElementSibling.clientWidth])
  if (own < row / 2) throw new Error(`why an instance fails has ${own} px of ${row}`)
}

/** Two models answer beside each other, and each answer says what it took and cost. */
async function askTwo(page) {
  await page.locator('.composer .ta').fill('What is a patch bay?')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => [...document.querySelectorAll('.lanes > *')].filter((lane) => /\d m?s/.test(lane.textContent) && /\d USD/.test(lane.textContent)).length === 2, undefined, { timeout: 60_000 })
}

/** Names that the data of the gateway has, which are no words. */
const ownNames = ['acme', 'globex', 'initech', 'ann', 'bob', 'carol', 'dave', 'nightly', 'open', 'system', 'demo']

/** The pages, and what they can open: where it is, what is done there, and whether the few looks have it. */
const places = {
  overview: { path: '/', few: true },
  'overview-table': { path: '/?view=table&charts=open' },
  services: { path: '/services', few: true },
  'services-by-host': { path: '/services?group=host&sort=-rate', few: true },
  'services-problems': { path: '/services?show=problems', act: wideCauses, few: true },
  'services-menu': { path: '/services', act: async (page) => (await row(page).locator('.mtd button').click(), await menu(page)) },
  'services-remove': { path: '/services', act: async (page) => (await row(page).locator('.mtd button').click(), await page.locator('[role=menuitem].danger').click(), await dialog(page)) },
  'services-edit': { path: edit, act: drawer, few: true },
  'services-add': { path: '/services?add=chat', act: drawer },
  'services-policy': { path: '/services?policy=chat', act: drawer },
  playground: { path: '/playground', few: true },
  'playground-two': { path: '/playground?model=demo-chat&second=demo-ollama', act: askTwo, few: true },
  'playground-embeddings': { path: '/playground?type=embedding' },
  'playground-images': { path: '/playground?type=imgGen' },
  'playground-audio': { path: '/playground?type=tts' },
  calls: { path: '/calls', few: true, print: true },
  'calls-failed': { path: '/calls?show=failed', act: reasonFirst, few: true },
  'calls-filters': { path: '/calls?span=1h&httpStatus=500', act: press('.bar [aria-expanded]') },
  'calls-drawer': { path: `/calls?call=${calls[0].requestId}`, act: drawer, few: true },
  runs: { path: '/runs', few: true },
  run: { path: '/runs', act: async (page) => (await page.locator('.tbl.runs td > button.link').first().click(), await page.locator('.runline .tr').first().click(), await page.locator('.runcall').waitFor()), few: true },
  'run-end': { path: '/runs', act: async (page) => (await page.locator('.tbl.runs td > button.link').first().click(), await page.locator('.runacts .btn.danger').click(), await dialog(page)) },
  'services-hold': { path: '/services', act: async (page) => (await row(page).locator('.mtd button').click(), await page.locator('[role=menuitem]', { hasText: /Hold open|保持断开/ }).click(), await dialog(page)) },
  'spend-usage': { path: '/spend?view=usage', few: true },
  'spend-ledger': { path: '/spend?view=ledger', few: true },
  spend: { path: '/spend', few: true, print: true },
  'spend-by-key': { path: '/spend?by=key' },
  batches: { path: '/batches', few: true },
  'batches-open': { path: '/batches', act: async (page) => (await page.locator('.btc .nmad').first().click(), await drawer(page)) },
  versions: { path: '/versions', few: true, print: true },
  keys: { path: '/keys', few: true },
  'keys-drawer': { path: '/keys?key=team-a', act: drawer },
  'keys-new': { path: '/keys', act: async (page) => (await page.locator('main .btn.pri').first().click(), await page.locator('dialog[open], .drawer').first().waitFor()) },
  settings: { path: '/settings', few: true },
  instance: { path: `/instance?service=chat&id=${encodeURIComponent(instance)}`, few: true, print: true },
  model: { path: '/model?service=chat&id=demo-flaky', few: true },
  // What has failed is named with its count.
  'instance-down': { path: `/instance?service=chat&id=${encodeURIComponent(calls[0].instance)}`, act: async (page) => (await fail(), await page.locator('.pr a', { hasText: '×' }).first().waitFor()), few: true },
  host: { path: `/host?id=${new URL(instance.slice(instance.indexOf('@') + 1)).host}`, few: true },
  tenants: { path: '/tenant', few: true },
  tenant: { path: '/tenant?id=acme' },
  gateways: { path: '/gateways', few: true },
  docs: { path: '/docs/api', few: true },
  'not-found': { path: '/nowhere' },
  palette: { path: '/spend', act: async (page) => (await page.keyboard.press('Control+k'), await page.keyboard.type('demo'), await page.locator('[role=option]').first().waitFor()), few: true },
  help: { path: '/spend', act: async (page) => (await page.keyboard.press('?'), await dialog(page)) },
  'api-calls': { path: '/spend', act: async (page) => (await page.locator('.top .btn.onlydesk').click(), await dialog(page)), least: 768 },
  'language-menu': { path: '/batches', act: async (page) => (await page.locator('.top button[aria-haspopup=menu]').first().click(), await menu(page)) },
  'more-menu': { path: '/batches', act: async (page) => (await page.locator('.tabbar button').click(), await menu(page)), most: 767 },
  ...(few ? {} : { 'log-in': { base: guarded.url, path: '/', isOut: true }, setup: { base: bare.url, path: '/' }, 'setup-services': { base: bare.url, path: '/services' } }),
}

// The documentation is pages of its own, which follow the language and theme of the console.
const guides = { guide: '/docs', start: '/docs/start', 'first-backend': '/docs/first-backend', traffic: '/docs/traffic', ledger: '/docs/quota', errors: '/docs/errors', missing: '/docs/nothing' }

/** Lets go of the breaker that a page has held, so that the next one can hold it. */
async function letGo() {
  const { id } = (await (await fetch(`${demo.url}/api/monitoring/instances`)).json()).services.chat.instances.find((one) => one.id.startsWith('demo-claude'))
  const reply = await fetch(`${demo.url}/api/config/instance/circuit-breaker/chat`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ instanceId: id, state: 'AUTO' }) })
  if (!reply.ok) throw new Error(`the breaker is still held: ${reply.status}`)
}

/** Something is saved on each of these pages, and the toast that says so covers nothing. */
const saves = {
  services: { path: '/services', act: (page) => page.locator('.svc tr', { hasText: 'demo-chat' }).first().locator('.sw').click(), undo: (page) => page.locator('.toast button').click() },
  'services-edit': { path: edit, act: async (page) => (await drawer(page), await page.locator('.drawer .slider [role=slider]').focus(), await page.keyboard.press('ArrowRight'), await page.locator('.drawer footer .btn.pri').click()) },
  'services-hold': { path: '/services', act: async (page) => (await row(page).locator('.mtd button').click(), await page.locator('[role=menuitem]', { hasText: /Hold open|保持断开/ }).click(), await page.locator('dialog .btn.danger').click()), undo: () => letGo() },
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: chromiumArgs })
await mkdir('screenshots', { recursive: true })
const axe = await readFile(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
let findings = 0
const report = (where, what) => {
  findings++
  console.log(`${where}: ${what}`)
}

/** Waits until the page is live and all that it has asked for is there. */
async function settled(page, pending, { isOut = false, isGuest = false }, where) {
  if (isGuest) await page.waitForLoadState('load')
  else if (!isOut) await page.waitForSelector('.live.live', { timeout: 240_000 }).catch(() => report(where, 'never live'))
  else await page.waitForSelector('form')
  let quiet = 0
  while (quiet < 3) {
    await page.waitForTimeout(40)
    quiet = pending.size === 0 ? quiet + 1 : 0
  }
}

async function examine(page, name, [lang, width], where) {
  const text = await page.evaluate(() => document.body.innerText)
  const key = /\b(?:nav|top|live|common|error|health|breaker|palette|keys|overview|services|pg|calls|res|quota|spend|batch|budget|ver|key|set|find|wrong)\.[a-z][A-Za-z0-9.]+\b/.exec(text)
  if (key !== null && !/\.(go|json|md|retention|enabled|defaults)/.test(key[0])) report(where, `untranslated key ${key[0]}`)
  // Paths of the API have names in braces of their own.
  const brace = name === 'docs' || name === 'api-calls' ? null : /\{\w+\}/.exec(text)
  if (brace !== null) report(where, `unfilled name ${brace[0]}`)
  for (const what of await page.evaluate(badlyDrawn)) report(where, what)
  for (const what of await page.evaluate(offScreen)) report(where, what)
  for (const what of await page.evaluate(cutColumns)) report(where, what)
  if (width < 768) for (const what of await page.evaluate(smallTargets)) report(where, what)
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  if (wide > 0) report(where, `scrolls sideways by ${wide} px`)
  if (lang === 'zh') for (const what of await page.evaluate(englishIn, ownNames)) report(where, what)
  await runAxe(page, where)
}

async function runAxe(page, where) {
  await page.evaluate(`if (typeof axe === 'undefined') { ${axe} }`)
  const violations = await page.evaluate("axe.run({ resultTypes: ['violations'] }).then((results) => results.violations.map(({ impact, id, nodes }) => ({ impact, id, nodes: nodes.slice(0, 3).map((node) => node.target.join(' ')) })))")
  for (const { impact, id, nodes } of violations) report(where, `axe ${impact} ${id}: ${nodes.join(' | ')}`)
}

/** On paper there is no navigation, all is dark on white, and nothing is cut at the side. */
async function onPaper(page, where) {
  await page.emulateMedia({ media: 'print' })
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'light')
  const found = await page.evaluate(() => {
    const shown = [...document.querySelectorAll('.side, .tabbar, .toasts, .top .btn, .bar')].filter((node) => node.checkVisibility())
    const light = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3
    const pale = [...document.querySelectorAll('main *')].filter((node) => node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '') && light(window.getComputedStyle(node).color) > 150)
    const cut = [...document.querySelectorAll('main .panel, main .cbody')].filter((node) => node.checkVisibility() && node.scrollHeight > node.clientHeight + 2 && window.getComputedStyle(node).overflowY !== 'visible')
    return [...shown.map((node) => `${node.className} is printed`), ...(pale.length > 0 ? [`pale ink: .${pale[0].className} "${pale[0].textContent.trim().slice(0, 30)}"`] : []), ...cut.map((node) => `${node.className} is cut on paper`)]
  })
  for (const what of found) report(where, what)
  // The print ends with the page as it was, though it still shows itself as paper.
  if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}-print.png`, fullPage: true })
  if (!few) await page.pdf({ path: `screenshots/${where}.pdf`, format: 'A4' })
  await page.emulateMedia({ media: null })
}

/** Goes through all places as a person does. */
async function look([lang, theme, width]) {
  const context = await browser.newContext({ viewport: { width, height: width < 768 ? 844 : 800 }, hasTouch: width < 768, isMobile: width < 768 })
  const page = await context.newPage()
  await page.addInitScript(([l, t]) => {
    localStorage.setItem('patchbay.lang', l)
    localStorage.setItem('patchbay.theme', t)
  }, [lang, theme])
  let where = ''
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !/^(log-in|missing|not-found)-/.test(where) && report(where, `console: ${message.text()}`))
  page.on('pageerror', (error) => report(where, `error: ${error.message}`))
  const pending = new Set()
  page.on('request', (request) => !request.url().includes('/api/monitoring/live') && pending.add(request))
  for (const event of ['requestfinished', 'requestfailed']) page.on(event, (request) => pending.delete(request))
  for (const [name, place] of Object.entries(places)) {
    if (!name.includes(wanted) || (few && !place.few) || width < (place.least ?? 0) || width > (place.most ?? 9999)) continue
    where = `${name}-${width}-${theme}-${lang}`
    try {
      await page.goto(new URL(place.path, place.base ?? demo.url).href)
      await settled(page, pending, place, where)
      await place.act?.(page)
      await examine(page, name, [lang, width], where)
      if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}.png`, fullPage: flags.includes('--full'), timeout: 240_000 })
      if (place.print && (!few || theme === 'dark')) await onPaper(page, where)
    } catch (error) {
      report(where, String(error.message).split('\n').slice(0, 3).join(' '))
    }
  }
  await lookAtGuides(page, [lang, theme, width], (name) => (where = name))
  await context.close()
}

/** Opens the pages of the documentation without a language, as the link of an error does. */
async function lookAtGuides(page, [lang, theme, width], at) {
  for (const [name, path] of Object.entries(guides)) {
    if (!name.includes(wanted)) continue
    const where = `${name}-${width}-${theme}-${lang}`
    at(where)
    await page.goto(new URL(path, demo.url).href)
    await page.waitForFunction((l) => document.documentElement.lang.startsWith(l) && document.readyState === 'complete', lang, { timeout: 60_000 }).catch(() => report(where, `not in ${lang}`))
    const seen = await page.evaluate(() => ({ theme: document.documentElement.dataset.theme, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth }))
    if (seen.theme !== theme) report(where, `is ${seen.theme}`)
    if (seen.wide > 0) report(where, `scrolls sideways by ${seen.wide} px`)
    if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}.png`, fullPage: flags.includes('--full'), timeout: 240_000 })
    await runAxe(page, where)
  }
}

/** What says that something was saved covers nothing that can be pressed. */
async function told(lang, width) {
  const context = await browser.newContext({ viewport: { width, height: width < 768 ? 844 : 800 }, hasTouch: width < 768, isMobile: width < 768 })
  await context.addInitScript((l) => localStorage.setItem('patchbay.lang', l), lang)
  for (const [name, { path, act, undo }] of Object.entries(saves)) {
    if (!`toast-${name}`.includes(wanted)) continue
    const page = await context.newPage()
    const where = `toast-${name}-${width}-${lang}`
    try {
      await page.goto(new URL(path, demo.url).href)
      await page.waitForSelector('.live.live')
      await act(page)
      await page.locator('.toast').waitFor()
      for (const what of await page.evaluate(coveredByToast)) report(where, what)
      if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}.png` })
      await undo?.(page)
    } catch (error) {
      report(where, String(error.message).split('\n').slice(0, 3).join(' '))
    }
    await page.close()
  }
  await context.close()
}

/** What each role opens, with security on: the tabs of keys, the notes of those who may only read. */
const opened = {
  'services-edit': { path: '/services', act: async (page) => (await page.locator('.svc .nmad').first().click(), await drawer(page)), few: true },
  'services-add': { path: '/services?add=chat', act: drawer },
  'services-hand': { path: '/services?add=chat&hand=1', act: drawer },
  'services-policy': { path: '/services?policy=chat', act: drawer },
  'calls-drawer': { path: '/calls', act: async (page) => (await page.locator('.crow[data-index="0"]').click(), await drawer(page)) },
  'tenant-terms': { path: '/tenant?id=acme&terms=1', act: (page) => page.locator('.drawer').waitFor({ timeout: 3000 }).catch(() => undefined) },
  'keys-new': { path: '/keys?create=1', act: drawer, few: true, needs: 'ADMIN' },
  'keys-drawer': { path: '/keys?key=team-a', act: drawer, needs: 'ADMIN' },
  'services-menu': { path: '/services', act: async (page) => (await page.locator('.svc .mtd button').last().click(), await menu(page)) },
}

/** Looks at all that opens as somebody with a role, in windows of every size. */
async function lookAs(role) {
  for (const [width, height] of few ? [[1280, 720], [390, 844]] : [[1440, 900], [1280, 720], [1024, 768], [390, 844]]) {
    const context = await browser.newContext({ viewport: { width, height }, hasTouch: width < 768, isMobile: width < 768, extraHTTPHeaders: { authorization: `Bearer ${guarded.tokens[role]}` } })
    await context.addInitScript(() => localStorage.setItem('patchbay.lang', 'en'))
    const page = await context.newPage()
    for (const [name, place] of Object.entries(opened)) {
      const where = `${name}-${role}-${width}x${height}`
      if (!where.includes(wanted) || (few && !place.few) || (place.needs !== undefined && place.needs !== role)) continue
      try {
        await page.goto(new URL(place.path, guarded.url).href)
        await page.waitForSelector('.live.live', { timeout: 60_000 })
        await place.act(page)
        for (const what of await page.evaluate(offScreen)) report(where, what)
        if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}.png` })
      } catch (error) {
        report(where, String(error.message).split('\n').slice(0, 3).join(' '))
      }
    }
    await context.close()
  }
}

/** What each role finds with security on; what it may not see says so in one sentence, and is no error. */
const found = { overview: '/', services: '/services', calls: '/calls', spend: '/spend', batches: '/batches', keys: '/keys', tokens: '/keys?tab=tokens', people: '/keys?tab=people', roles: '/keys?tab=roles', audit: '/keys?tab=audit', versions: '/versions', settings: '/settings', tenant: '/tenant?id=acme' }
const foundByPeople = { me: '/me', team: '/team' }

/** Goes through the pages as somebody with a role. */
async function roam(role, [lang, theme, width]) {
  const isToken = tokenRoles.includes(role)
  const context = await browser.newContext({ viewport: { width, height: width < 768 ? 844 : 800 }, hasTouch: width < 768, isMobile: width < 768, ...(isToken ? { extraHTTPHeaders: { authorization: `Bearer ${guarded.tokens[role]}` } } : {}) })
  await context.addInitScript(([l, t]) => {
    localStorage.setItem('patchbay.lang', l)
    localStorage.setItem('patchbay.theme', t)
  }, [lang, theme])
  const page = await context.newPage()
  const pending = new Set()
  page.on('request', (request) => !request.url().includes('/api/monitoring/live') && pending.add(request))
  for (const event of ['requestfinished', 'requestfailed']) page.on(event, (request) => pending.delete(request))
  let where = ''
  page.on('console', (message) => message.type() === 'error' && !message.text().startsWith('Failed to load resource') && report(where, `console: ${message.text()}`))
  page.on('response', (response) => response.status() >= 400 && report(where, `${response.status()} of ${new URL(response.url()).pathname}`))
  page.on('pageerror', (error) => report(where, `error: ${error.message}`))
  if (!isToken) await page.goto(`${guarded.url}/auth/login?provider=${role}&to=/me`)
  for (const [name, path] of Object.entries(isToken ? found : foundByPeople)) {
    where = `as-${role}-${name}-${width}-${theme}-${lang}`
    if (!where.includes(wanted) || (name === 'team' && role !== 'TEAM_ADMIN')) continue
    try {
      await page.goto(new URL(path, guarded.url).href)
      await page.locator('main h1, main h2, main .note, main .panel, .top h1').first().waitFor()
      await settled(page, pending, { isGuest: !isToken }, where)
      await examine(page, name, [lang, width], where)
      for (const text of await page.locator('main .note.bd').allInnerTexts()) report(where, `an error: ${text}`)
      if (flags.includes('--shots')) await page.screenshot({ path: `screenshots/${where}.png` })
    } catch (error) {
      report(where, String(error.message).split('\n').slice(0, 3).join(' '))
    }
  }
  await context.close()
}

// Two at a time: while one waits for the gateway, the other is drawn.
const roles = few ? ['VIEWER', 'MEMBER'] : [...tokenRoles, ...peopleRoles]
const queue = [...combinations.map((one) => () => look(one)), ...roles.flatMap((role) => combinations.map((one) => () => roam(role, one)))]
const worker = async () => {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) await next()
}
await Promise.all([worker(), worker()])
for (const role of few ? ['ADMIN', 'VIEWER'] : tokenRoles) await lookAs(role)
for (const width of few ? [] : [390, 800, 1024, 1440]) for (const lang of ['en', 'zh']) await told(lang, width)
await browser.close()
for (const gateway of [demo, guarded, bare]) gateway?.stop()
console.log(`${findings} findings`)
process.exitCode = findings === 0 ? 0 : 1
