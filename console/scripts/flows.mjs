// Walks through what a person does, in Chromium, in front of a gateway of its
// own (`patchbay demo`), with the time limits that the console promises.
//
//   PATCHBAY_BIN=../bin/patchbay node scripts/flows.mjs [pattern of flows' names]
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer as createBackend } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { restarts } from './restarts.mjs'
import { tasks } from './tasks.mjs'

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
const dir = await mkdtemp(join(tmpdir(), 'patchbay-flows-'))
const gateway = `http://127.0.0.1:${await freePort()}`

async function ready(url) {
  for (let i = 0; i < 300; i++) {
    if (await fetch(`${url}/actuator/health/readiness`).then((reply) => reply.ok, () => false)) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the gateway does not start')
}
const demo = (url, ...args) => spawn(process.env.PATCHBAY_BIN ?? '../bin/patchbay', ['demo', '--listen', new URL(url).host, ...args], { stdio: 'ignore' })
let child
async function startGateway() {
  child = demo(gateway)
  await ready(gateway)
}
const kill = (process) =>
  new Promise((resolve) => {
    process.once('exit', resolve)
    process.kill('SIGKILL')
  })
const stopGateway = () => kill(child)

/** A gateway with security on, and a token for each role. */
async function withSecurity(run, ...args) {
  const tokens = { ADMIN: randomBytes(24).toString('hex'), VIEWER: randomBytes(24).toString('hex') }
  const hash = (token) => createHash('sha256').update(token).digest('hex')
  const list = Object.entries(tokens).map(([role, token]) => `{name: ${role.toLowerCase()}, role: ${role}, token-sha256: "${hash(token)}"}`)
  const url = `http://127.0.0.1:${await freePort()}`
  const guarded = demo(url, '--traffic=false', '--set', 'security.enabled=true', '--set', 'security.allow-keyless=true', '--set', `security.tokens=[${list.join(', ')}]`, ...args)
  try {
    await ready(url)
    return await run(url, tokens)
  } finally {
    await kill(guarded)
  }
}

/** The arguments of a gateway whose file has a process that works and one that does not. */
async function twoProcesses() {
  const server = "console.log('weights are read'); require('node:http').createServer((_, reply) => reply.end('{}')).listen(process.env.PORT, '127.0.0.1')"
  const file = join(dir, 'processes.yaml')
  await writeFile(file, JSON.stringify({
    processes: {
      works: { group: 'gpu', command: [process.execPath, '-e', server], env: { PORT: '$PORT' } },
      breaks: { command: [process.execPath, '-e', "console.log('<b>out of memory</b>'); process.exit(3)", '$PORT'], restarts: 0 },
    },
    services: { chat: { instances: [{ name: 'works', process: 'works' }, { name: 'breaks', process: 'breaks' }] } },
  }))
  return ['--config', file]
}
/** A gateway of its own with more settings, and more arguments. */
async function withSettings(settings, run, ...args) {
  const url = `http://127.0.0.1:${await freePort()}`
  const other = demo(url, '--traffic=false', ...settings.flatMap((setting) => ['--set', setting]), ...args)
  try {
    await ready(url)
    return await run(url)
  } finally {
    await kill(other)
  }
}
async function logIn(page, token) {
  await page.getByLabel('Management token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
}
async function logOut(page) {
  await page.getByRole('button', { name: /, (ADMIN|VIEWER)$/ }).click()
  await page.getByRole('menuitem', { name: 'Log out' }).click()
  await page.getByLabel('Management token').waitFor()
}
async function call(method, path, body, headers = {}) {
  const reply = await fetch(gateway + path, { method, headers: { 'content-type': 'application/json', ...headers }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await reply.text()
  return { status: reply.status, headers: reply.headers, body: text.startsWith('{') ? JSON.parse(text) : text }
}
const chat = (model, stream = false) => call('POST', '/v1/chat/completions', { model, stream, messages: [{ role: 'user', content: 'hi' }] })
const instances = async () => (await call('GET', '/api/config/instance/type/chat')).body.data

await startGateway()
const base = `${gateway}/`
const browser = await chromium.launchPersistentContext(join(dir, 'profile'), {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  headless: true,
  viewport: { width: 1280, height: 800 },
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
})
await browser.addInitScript(() => {
  localStorage.setItem('patchbay.lang', 'en')
  window.violations = []
  window.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`))
})

/** Waits until the condition holds, and returns the milliseconds it took. */
async function within(limit, page, condition, ...args) {
  const began = Date.now()
  await page.waitForFunction(condition, args.length === 1 ? args[0] : args, { timeout: limit, polling: 50 })
  return Date.now() - began
}

/** Counts the main thread's own time, which a busy machine does not stretch. */
async function threadTime(page) {
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics')
    return Math.round(metrics.find((metric) => metric.name === 'TaskDuration').value * 1000)
  }
}

const hostile = [
  '<img src=x onerror=alert(1)>', '<script>alert(1)</script>', '"><svg onload=alert(1)>', "javascript:alert('1')", '{{constructor.constructor("alert(1)")()}}',
  '${alert(1)}', '<iframe srcdoc="<script>alert(1)</script>">', '\u202Egnp.exe', '[x](javascript:alert(1))',
]

/**
 * A backend whose models are the given ones. It answers with what it was asked,
 * or with an error of these words when they are "fail:" and more.
 */
async function withBackend(models, run, { status = 500, delay = 0 } = {}) {
  const server = createBackend((request, response) => {
    const send = (status, value) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (request.method === 'GET') {
      if (request.url === '/v1/models') send(200, { object: 'list', data: models.map((id) => ({ id, object: 'model', owned_by: 'flows' })) })
      else send(404, { error: { message: 'not found' } })
      return
    }
    let text = ''
    request.on('data', (part) => (text += part))
    request.on('end', () => {
      const { model, messages } = JSON.parse(text)
      const content = messages.at(-1).content
      if (content.startsWith('fail:')) send(status, { error: { message: content.slice(5), type: 'server_error' } })
      else setTimeout(send, delay, 200, { id: 'x', object: 'chat.completion', created: 1, model, choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await run(`http://127.0.0.1:${server.address().port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
/** An Ollama that lists models, and answers nothing else. */
async function withOllama(models, run) {
  const server = createBackend((request, response) => {
    const send = (status, value) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    const path = request.url.split('?')[0]
    request.resume()
    if (path === '/api/tags') send(200, { models: models.map((name) => ({ name, model: name, details: { family: 'any' } })) })
    else if (path === '/api/ps') send(200, { models: [] })
    else if (path === '/api/version') send(200, { version: '0.12.0' })
    else send(404, { error: 'not found' })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await run(`http://127.0.0.1:${server.address().port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** Counts the clicks of a page; the count begins anew when the function is called with true. */
async function countClicks(page) {
  let count = 0
  await page.exposeFunction('countClick', () => count++)
  await page.addInitScript(() => document.addEventListener('pointerdown', (event) => event.isTrusted && void window.countClick(), true))
  return (isNew = false) => {
    if (isNew) count = 0
    return count
  }
}
async function rollBack() {
  const current = (await call('GET', '/api/config/version/current')).body.data
  await call('POST', '/api/config/version/rollback/1', undefined, { 'If-Match': String(current) })
}

const flows = {
  'first page: numbers within a second, no violation of the policy': async (page) => {
    const spent = await threadTime(page)
    const began = Date.now()
    await page.goto(base)
    await page.waitForSelector('.jr2')
    const time = Date.now() - began
    const cpu = await spent()
    assert.deepEqual(await page.evaluate(() => window.violations), [])
    assert.ok(cpu < 1000, `${cpu} ms of the main thread`)
    return `${time} ms to the patch bay, ${cpu} ms of the main thread`
  },
  'keyboard: pages, search, help': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.live.live')
    await page.keyboard.press('g')
    await page.keyboard.press('s')
    await page.waitForURL('**/services')
    await page.keyboard.press('Control+k')
    await page.keyboard.type('demo-flaky')
    await page.waitForSelector('[role=option] >> text=demo-flaky')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Escape')
    await page.keyboard.press('?')
    await page.waitForSelector('dialog[open]')
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog[open]', { state: 'detached' })
  },
  'keyboard: follow a cable of the patch bay': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.jr2')
    await page.locator('[data-row="chat demo-chat"]').focus()
    assert.equal(await page.locator('.cab:not(.dim)').count(), 2)
    await page.keyboard.press('ArrowRight')
    const focused = await page.evaluate(() => document.activeElement.getAttribute('data-row'))
    assert.match(focused, /^chat demo-chat@/)
    await page.keyboard.press('Enter')
    await page.waitForURL('**/instance?*')
  },
  'chat: streamed, stopped': async (page) => {
    await page.goto(`${base}playground`)
    await page.waitForSelector('.live.live')
    await page.fill('.ta', 'Tell me about patch bays')
    await page.keyboard.press('Control+Enter')
    await page.waitForSelector('.caret', { timeout: 3000 })
    await page.keyboard.press('Escape')
    await page.waitForSelector('.tag.off', { timeout: 1000 })
  },
  'break: failures open a breaker, and the cable shows it': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.jr2')
    for (let i = 0; i < 6; i++) await chat('demo-down')
    // A health check that passes may have put it on trial already.
    const time = await within(2500, page, () => document.querySelector('.plug, .cb.c-wn') !== null)
    await page.locator('.head', { hasText: /demo-down/ }).waitFor({ timeout: 5000 })
    return `${time} ms after the last failure`
  },
  'held open: the plug comes out, and goes in again': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.jr2')
    const { instanceId } = (await instances()).find((instance) => instance.name === 'demo-gemini')
    await call('POST', '/api/config/instance/circuit-breaker/chat', { instanceId, state: 'OPEN' })
    const out = await within(2500, page, () => document.querySelector('.plug') !== null)
    // Calls that are lost come before a model that nobody asks for.
    await page.locator('.head', { hasText: /demo-gemini does not answer: circuit breaker held open by/ }).waitFor({ timeout: 5000 })
    await call('POST', '/api/config/instance/circuit-breaker/chat', { instanceId, state: 'AUTO' })
    const back = await within(2500, page, () => document.querySelector('.plug') === null)
    return `out after ${out} ms, in after ${back} ms`
  },
  'steer: hold a breaker open, let go': async (page) => {
    await page.goto(`${base}services`)
    const row = page.locator('.svc tbody tr', { hasText: 'demo-claude' })
    await chat('demo-claude')
    await row.locator('.shtd b', { hasText: '100 %' }).waitFor({ timeout: 15_000 })
    await row.locator('.mtd button').click()
    await page.getByRole('menuitem', { name: 'Hold open' }).click()
    await page.getByLabel('Reason').fill('maintenance <b>tonight</b>')
    await page.getByRole('button', { name: 'Hold open' }).click()
    await row.getByText('Held open').waitFor({ timeout: 2500 })
    // Its share is of the same minutes as before, like its requests a second.
    assert.match(await row.locator('.shtd').innerText(), /^100 %/)
    await page.getByRole('button', { name: /^Problems/ }).click()
    await page.locator('.svc tr.has-why + tr.cause', { hasText: 'maintenance <b>tonight</b>' }).waitFor({ timeout: 2500 })
    await row.locator('.mtd button').click()
    await page.getByRole('menuitem', { name: 'Back to automatic' }).click()
    await page.getByText('The breaker of demo-claude works by itself again.').waitFor({ timeout: 2500 })
    await page.getByRole('button', { name: /^All/ }).click()
    await row.getByText('Healthy', { exact: true }).waitFor({ timeout: 2500 })
  },
  'a page of a model: its settings open beside it, its instances are tested and taken out by the keyboard': async (page) => {
    await page.goto(`${base}model?service=chat&id=demo-gemini`)
    await page.getByRole('button', { name: 'Test all instances' }).click()
    await page.getByText('1 of 1 answered.').waitFor({ timeout: 10_000 })
    await page.getByRole('region', { name: 'Requests' }).getByRole('button', { name: /Table/ }).click()
    await page.locator('.meter table').waitFor()
    await page.getByRole('link', { name: 'Edit the policies of chat' }).focus()
    await page.keyboard.press('Enter')
    await page.waitForSelector('.drawer')
    await page.keyboard.press('Escape')
    await page.waitForSelector('.drawer', { state: 'detached' })
    assert.match(page.url(), /\/model\?/)
    await page.getByRole('button', { name: /: demo-gemini@/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Drain' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('dialog[open] >> text=No other instance can serve demo-gemini now').waitFor()
    await page.locator('dialog[open]').getByRole('button', { name: 'Drain' }).click()
    // The demo asks for it too, and calls that are lost come first.
    await page.locator('.head h2', { hasText: /No instance of (demo-gemini can serve|the model "demo-gemini" is available)/ }).waitFor({ timeout: 10_000 })
    await rollBack()
  },
  'services: the drawer and the bulk action ask for the last instance': async (page) => {
    const one = (await instances()).find((instance) => instance.name === 'demo-gemini')
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${one.instanceId}`)}`)
    await page.locator('.drawer').getByRole('textbox', { name: 'Weight' }).fill('0')
    await page.getByRole('button', { name: /^Save as version/ }).click()
    await page.locator('dialog[open] >> text=No other instance can serve demo-gemini now').waitFor()
    await page.keyboard.press('Escape')
    assert.equal((await instances()).find((instance) => instance.name === 'demo-gemini').weight ?? 1, one.weight ?? 1)
    await page.goto(`${base}services?q=demo-gemini`)
    await page.getByRole('button', { name: 'The 1 instance shown' }).click()
    await page.getByRole('menuitem', { name: /^Disable/ }).click()
    await page.locator('dialog[open] >> text=No other instance can serve demo-gemini now').waitFor()
    await page.keyboard.press('Escape')
  },
  'a page of a tenant on a telephone: its keys, its terms are changed': (page) =>
    withSecurity(async (url, tokens) => {
      await page.setViewportSize({ width: 390, height: 800 })
      await page.goto(`${url}/tenant?id=support-bot`)
      await logIn(page, tokens.ADMIN)
      await page.getByText('support-bot has made no request this month.').waitFor({ timeout: 10_000 })
      await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer sk-bot' }, body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.text())
      await page.getByText(/^support-bot has spent .* this month, in 1 request\.$/).waitFor({ timeout: 10_000 })
      await page.getByText('bot-1').first().waitFor()
      await page.getByRole('link', { name: 'Edit terms' }).click()
      await page.getByLabel('Requests a minute').fill('7')
      await page.getByRole('button', { name: /^Save as version/ }).click()
      await page.waitForSelector('.drawer', { state: 'detached' })
      await page.locator('.dl dt', { hasText: 'Requests a minute' }).waitFor({ timeout: 10_000 })
      await page.locator('.pr', { hasText: 'tenant support-bot' }).waitFor({ timeout: 10_000 })
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth), false)
    }, '--set', 'security.tenants=[{name: support-bot, budgets: {month: {requests: 100}}}]', '--set', `security.keys=[{id: bot-1, tenant: support-bot, key-sha256: "${createHash('sha256').update('sk-bot').digest('hex')}"}]`),
  'a call is copied as curl, and a shell sends the same again': (page) =>
    withSettings(['monitoring.capture=content'], async (url) => {
      const content = `it's "quoted", $(touch ${dir}/owned) \`id\` \\ \n'; id #\u009b`
      const body = JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content }] })
      await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-request-id': 'copied-1', 'x-note': `it's $HOME` }, body }).then((reply) => reply.text())
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url })
      await page.goto(`${url}/calls?call=copied-1`)
      await page.getByText('x-note', { exact: false }).first().waitFor({ timeout: 10_000 })
      await page.getByRole('button', { name: 'Copy as curl' }).click()
      const line = await page.evaluate(() => navigator.clipboard.readText())
      const shell = spawnSync('sh', ['-c', line], { encoding: 'utf8' })
      assert.match(shell.stdout, /chat\.completion/, `${shell.stderr} ${line}`)
      const { calls } = await (await fetch(`${url}/api/monitoring/calls?limit=1`)).json()
      const again = await (await fetch(`${url}/api/monitoring/calls/${calls[0].requestId}/content`)).json()
      assert.notEqual(calls[0].requestId, 'copied-1')
      assert.deepEqual(JSON.parse(again.request.text), JSON.parse(body))
      assert.ok(again.headers.some((header) => header.name.toLowerCase() === 'x-note' && header.value === `it's $HOME`))
      await assert.rejects(readFile(join(dir, 'owned')))
    }),
  'a running request is seen and stopped': async (page) => {
    const running = call('POST', '/v1/chat/completions', { model: 'demo-hang', messages: [{ role: 'user', content: 'hi' }] }, { 'x-request-id': 'stuck-1' })
    // From the first page, by the search, and on the page of calls, where a text finds it.
    await page.goto(base)
    await page.getByRole('link', { name: /^[1-9]\d* running$/ }).waitFor()
    await page.keyboard.press('Control+k')
    await page.locator('.palette input').fill('running')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/calls\?show=running/)
    await page.getByRole('button', { name: /^Running [1-9]/ }).waitFor()
    await page.locator('[data-filter]').fill('stuck-1')
    await page.locator('.running .pr', { hasText: 'stuck-1' }).getByRole('button', { name: 'Stop' }).click()
    await page.getByLabel('Reason').fill('it hangs')
    await page.locator('dialog').getByRole('button', { name: 'Stop' }).click()
    const reply = await running
    assert.equal(reply.status, 503)
    assert.match(reply.body.error.message, /stopped this request: it hangs/)
    await page.locator('.running .pr', { hasText: 'stuck-1' }).waitFor({ state: 'detached' })
    return reply.body.error.code
  },
  'calls: searched by the gateway, filters in the address, pages': async (page) => {
    for (let n = 0; n < 60; n++) await chat('gpt-5o')
    let bytes = 0
    const count = async (reply) => {
      if (reply.url().includes('/api/monitoring/calls')) bytes += (await reply.body().catch(() => '')).length
    }
    page.on('response', count)
    await page.goto(`${base}calls`)
    await page.waitForSelector('.cbody .crow')
    await page.waitForTimeout(500)
    page.off('response', count)
    assert.ok(bytes < 60_000, `${bytes} bytes for a page`)
    await page.getByRole('button', { name: 'Filters' }).click()
    await page.getByLabel('Asked for').fill('gpt-5o')
    await page.getByRole('button', { name: 'Refused', exact: true }).click()
    await page.waitForURL(/asked=gpt-5o/)
    await page.reload()
    await page.getByRole('button', { name: 'Remove the filter Asked for' }).waitFor()
    await within(10_000, page, () => [...document.querySelectorAll('.cbody .c-model')].length > 3 && [...document.querySelectorAll('.cbody .c-model')].every((cell) => cell.textContent.includes('gpt-5o')))
    assert.equal(await page.locator('.calltable').getAttribute('aria-rowcount'), '50')
    await page.getByRole('button', { name: 'Older calls' }).click()
    await within(10_000, page, () => Number(document.querySelector('.calltable').getAttribute('aria-rowcount')) >= 60)
    await page.locator('.cbody .crow').first().click()
    await page.locator('.drawer').getByText('No instance serves the model "gpt-5o" for chat.').waitFor()
    return `${bytes} bytes of the API for a page; 60 calls of one name on two pages`
  },
  'calls: the drawer tells each try, and why the instance': async (page) => {
    const failed = await chat('demo-down')
    const requestId = failed.headers.get('x-request-id')
    const { body: known } = await call('GET', `/api/monitoring/calls/${requestId}`)
    await page.goto(`${base}calls?call=${requestId}`)
    const drawer = page.locator('.drawer')
    await drawer.getByText('Client address').waitFor()
    const shown = await drawer.innerText()
    for (const text of [known.clientIp, known.tries[0].errorText, `of ${known.candidates.total} could be picked`, 'round robin']) assert.ok(shown.includes(text), `${text} in ${shown}`)
    const answered = (await chat('demo-chat')).headers.get('x-request-id')
    const { body: good } = await call('GET', `/api/monitoring/calls/${answered}`)
    await page.goto(`${base}calls?call=${answered}`)
    await drawer.getByText(good.handle).waitFor()
    assert.match(await drawer.locator('.try').innerText(), /200/)
  },
  'edit: error at the field, save, undo': async (page) => {
    const [first] = await instances()
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${first.instanceId}`)}`)
    const address = page.getByLabel('Address', { exact: true })
    await address.fill('ftp://127.0.0.1:1/v1')
    await page.getByText('is no address; such as 127.0.0.1:11434 or http://gpu2:8000').waitFor()
    await address.fill(first.baseUrl)
    await page.locator('.drawer').getByRole('textbox', { name: 'Weight' }).fill('5')
    await page.getByText('this one 83 %').waitFor()
    const began = Date.now()
    await page.getByRole('button', { name: /Save as version/ }).click()
    await page.locator('.toast').waitFor()
    const time = Date.now() - began
    assert.equal((await instances())[0].weight, 5)
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await page.getByText(/Version 1 is in force/).waitFor()
    assert.equal((await instances())[0].weight, 1)
    return `saved in ${time} ms`
  },
  'edit: saved twice without a conflict with oneself; the version named is the one made': async (page) => {
    await call('PUT', '/api/config/type/services/chat', { loadBalancer: 'round_robin' })
    await rollBack() // the next number is not the one after that in force
    const [one] = await instances()
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${one.instanceId}`)}`)
    const isOff = (is) => page.waitForFunction((is) => document.querySelector('.drawer footer .btn.pri')?.disabled === is, is)
    await isOff(true)
    let go
    let held = Promise.resolve()
    await page.route('**/api/config/type', (route) => held.then(() => route.continue()))
    for (const weight of ['5', '7']) {
      await page.locator('.drawer').getByRole('textbox', { name: 'Weight' }).fill(weight)
      // What was typed before the page had read what it saved is still there.
      go?.()
      await isOff(false)
      const save = page.locator('.drawer footer .btn.pri')
      const named = Number(/\d+$/.exec(await save.innerText())[0])
      held = weight === '5' ? new Promise((resolve) => { go = resolve }) : held
      await Promise.all([page.waitForResponse((reply) => reply.request().method() === 'PUT' && !reply.url().includes('dryRun')), save.click()])
      // The button is off while it saves, too.
      await isOff(true)
      assert.equal(await page.locator('.drawer .note.bd').count(), 0)
      assert.equal((await call('GET', '/api/config/version/current')).body.data, named)
    }
    assert.equal((await instances())[0].weight, 7)
    await page.unroute('**/api/config/type')
    await page.goto(`${base}versions?version=1&with=2`)
    await page.locator('h2 >> text=From version 2 to version 1').waitFor()
    await rollBack()
  },
  'keyboard: arrows walk a list, Enter opens, a drawer takes the focus and gives it back': async (page) => {
    await page.goto(`${base}services`)
    await page.waitForSelector('.nmad')
    await page.locator('.nmad').first().focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    const third = await page.locator('.nmad').nth(2).getAttribute('title')
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('title')), third)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.drawer')
    assert.equal(await page.evaluate(() => document.activeElement.classList.contains('drawer')), true)
    await page.keyboard.press('Escape')
    await page.waitForSelector('.drawer', { state: 'detached' })
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('title')), third)
  },
  'switch: the last instance of a model asks before it goes out': async (page) => {
    const list = await instances()
    const last = list.find((one) => list.filter((other) => other.name === one.name && other.enabled !== false).length === 1 && one.enabled !== false)
    await page.goto(`${base}services`)
    await page.getByRole('switch', { name: last.instanceId }).click()
    await page.locator('dialog[open] >> text=No other instance can serve').waitFor()
    await page.keyboard.press('Escape')
    assert.equal(await page.getByRole('switch', { name: last.instanceId }).getAttribute('aria-checked'), 'true')
    await page.getByRole('switch', { name: last.instanceId }).click()
    await page.getByRole('button', { name: 'Take it out' }).click()
    await page.locator(`[role=switch][aria-checked=false][aria-label*="${last.instanceId}"]`).waitFor()
    await rollBack()
  },
  'switch: the only instance that is well asks, though an ill one is left': async (page) => {
    const added = await call('POST', '/api/config/instance/add/chat', { name: 'demo-gemini', baseUrl: 'http://127.0.0.1:9' })
    assert.equal(added.status, 201)
    const well = (await instances()).find((one) => one.name === 'demo-gemini' && one.baseUrl !== 'http://127.0.0.1:9')
    await page.goto(`${base}services?q=demo-gemini`)
    const ill = page.locator('tr', { hasText: '127.0.0.1:9' })
    await ill.locator('.pill.bd').waitFor({ timeout: 30_000 })
    await page.getByRole('switch', { name: well.instanceId }).click()
    await page.locator('dialog[open] >> text=No other instance can serve demo-gemini now').waitFor()
    await page.keyboard.press('Escape')
    // The ill one goes out without a question, and what is said names it.
    await ill.getByRole('switch').click()
    await page.getByText('demo-gemini at 127.0.0.1:9 is disabled.').waitFor()
    await rollBack()
  },
  'chat: Enter sends, markdown is drawn, the end is followed, the speed is that of the tokens': async (page) => {
    const event = (delta, more = {}) => `data: ${JSON.stringify({ choices: [{ delta: { content: delta } }], ...more })}\n\n`
    const body = event('# Title\n\n**bold** ![x](http://127.0.0.1:9/p.png)\n\n') + Array.from({ length: 200 }, (_, i) => event(`- point ${i} of a long list\n`)).join('') + event('', { usage: { prompt_tokens: 3, completion_tokens: 1000 } }) + 'data: [DONE]\n\n'
    const asked = []
    page.on('request', (request) => asked.push(request.url()))
    await page.route('**/v1/chat/completions', (route) => route.fulfill({ status: 200, contentType: 'text/event-stream', body }))
    await page.goto(`${base}playground`)
    await page.waitForSelector('.live.live')
    await page.fill('.ta', 'one')
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('two')
    await page.keyboard.press('Enter')
    await page.locator('.md >> text=point 199').waitFor()
    assert.equal(await page.locator('.md strong >> text=bold').count(), 1)
    assert.equal(await page.locator('.md img').count(), 0)
    assert.equal(asked.some((url) => url.includes('p.png')), false)
    assert.ok((await page.evaluate(() => ((box) => box.scrollHeight - box.scrollTop - box.clientHeight)(document.querySelector('.conv')))) < 4)
  },
  'playground: with security on it offers to make a key': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(`${url}/playground`)
      await logIn(page, tokens.ADMIN)
      await page.getByRole('button', { name: 'Make a key for a day' }).click()
      await page.locator('.toast >> text=A key for this tab was made').waitFor()
      await page.fill('.ta', 'hi')
      await page.keyboard.press('Enter')
      await page.locator('.meta >> text=tokens/s').first().waitFor()
      await page.getByRole('button', { name: 'Clear' }).click().catch(() => undefined)
    }),
  'conflict: two edit one instance': async (page) => {
    const [first] = await instances()
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${first.instanceId}`)}`)
    await page.locator('.drawer').getByRole('textbox', { name: 'Weight' }).fill('7')
    await call('PUT', '/api/config/instance/update/chat', { instanceId: first.instanceId, instance: { weight: 3 } })
    await page.getByRole('button', { name: /Save as version/ }).click()
    await page.getByText(/was saved while you edited/).waitFor()
    await page.getByText('theirs: weight: 3').waitFor()
    assert.match(await page.locator('.note.wn').innerText(), /theirs: weight: 3[\s\S]*yours: weight: 7/)
    await page.getByRole('button', { name: /Keep mine/ }).click()
    await page.locator('.toast').waitFor()
    assert.equal((await instances())[0].weight, 7)
  },
  'roll back in two clicks': async (page) => {
    const [one] = await instances()
    const edited = await call('PUT', '/api/config/instance/update/chat', { instanceId: `${one.name}@${one.baseUrl}`, instance: { weight: 6 } })
    assert.equal(edited.status, 200)
    const from = (await call('GET', '/api/config/version/current')).body.data
    await page.goto(`${base}versions?version=1`)
    await page.getByRole('button', { name: 'Roll back to version 1' }).click()
    const began = Date.now()
    await page.getByRole('button', { name: 'Confirm: roll back to version 1' }).click()
    await page.locator('.toast').waitFor()
    assert.equal((await instances())[0].weight, 1)
    const took = Date.now() - began
    await page.getByText(`Rolled back to it from version ${from}`).waitFor()
    return `in force after ${took} ms`
  },
  'names: aliases and fallbacks, errors at their rows, a conflict as a diff': async (page) => {
    await page.goto(`${base}services?policy=chat`)
    const drawer = page.locator('.drawer')
    await drawer.getByRole('button', { name: 'Alias', exact: true }).click()
    await drawer.getByLabel('Asked for 1').fill('gpt-4o')
    await drawer.getByLabel('Model 1', { exact: true }).first().fill('not-there')
    await drawer.getByRole('button', { name: /Save as version/ }).click()
    await drawer.locator('.pair + .msg', { hasText: 'no instance has the name "not-there"' }).waitFor()
    await drawer.getByLabel('Model 1', { exact: true }).first().fill('demo-chat')
    await drawer.getByRole('button', { name: 'Fallback', exact: true }).click()
    await drawer.getByRole('group', { name: 'Fallbacks' }).getByLabel('Model 1').fill('demo-chat')
    await drawer.getByLabel('Then, in order 1').fill('demo-claude, demo-gemini')
    // Somebody else saves in between.
    await call('PUT', '/api/config/type/services/chat', { queue: { size: 7 } })
    await drawer.getByRole('button', { name: /Save as version/ }).click()
    await drawer.getByText(/was saved while you edited version/).waitFor()
    await drawer.locator('.diff', { hasText: 'queue.size: 7' }).waitFor()
    await drawer.getByRole('button', { name: /Keep mine on top of/ }).click()
    await page.locator('.toast', { hasText: 'chat is saved.' }).waitFor()
    const stored = (await call('GET', '/api/config/type/services/chat')).body.data
    assert.deepEqual([stored.aliases, stored.fallbacks, stored.queue.size], [{ 'gpt-4o': 'demo-chat' }, { 'demo-chat': ['demo-claude', 'demo-gemini'] }, 7])
    assert.equal((await chat('gpt-4o')).headers.get('x-router-model'), 'demo-chat')
    await rollBack()
  },
  'discovery: an instance serves all that its backend lists, in a tier of its own': (page) =>
    withBackend(['found-a', 'found-b'], async (backend) => {
      await page.goto(`${base}services?add=chat&hand=1`)
      const drawer = page.locator('.drawer')
      await drawer.getByLabel('Address', { exact: true }).fill(backend)
      await drawer.getByRole('button', { name: 'All that it lists' }).click()
      await drawer.getByLabel('Tier').fill('101')
      await drawer.getByText('must be a whole number from 0 to 100').waitFor()
      await drawer.getByLabel('Tier').fill('1')
      await drawer.getByRole('button', { name: /Add as version/ }).click()
      await page.locator('.toast', { hasText: 'is added.' }).waitFor()
      const [added] = (await instances()).filter((instance) => instance.baseUrl === backend)
      assert.deepEqual([added.models, added.tier], [['discover'], 1])
      await drawer.getByText('2 models found').waitFor({ timeout: 60_000 })
      assert.equal((await chat('found-b')).status, 200)
      await rollBack()
    }),
  'test: a dead instance says why': async (page) => {
    const added = await call('POST', '/api/config/instance/add/chat', { name: 'flow-dead', baseUrl: 'http://127.0.0.1:9' })
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${added.body.data.instanceId}`)}`)
    await page.locator('.drawer').getByRole('button', { name: 'Send a real call' }).click()
    const note = page.locator('.drawer .note.bd')
    await note.waitFor({ timeout: 60_000 })
    assert.match(await note.innerText(), /refused/)
    await rollBack()
  },
  'weight: the distribution follows': async (page) => {
    const [first] = (await instances()).filter((instance) => instance.name === 'demo-chat')
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${first.instanceId}`)}`)
    await page.locator('.drawer input[inputmode=decimal]').fill('3')
    await page.locator('.drawer .stack .me', { hasText: '75 %' }).waitFor()
    await page.locator('.drawer').getByRole('button', { name: /Save as version/ }).click()
    await page.locator('.toast', { hasText: 'is saved.' }).waitFor()
    await page.locator('.svc tr', { hasText: first.baseUrl.replace('http://', '') }).first().getByText('/ 75 %').waitFor({ state: 'attached', timeout: 60_000 })
    let there = 0
    for (let i = 0; i < 20; i++) {
      const { body } = await call('GET', `/api/monitoring/calls/${(await chat('demo-chat')).headers.get('x-request-id')}`)
      if (body.instance === first.instanceId) there++
    }
    // The demo's own traffic takes turns too.
    assert.ok(there >= 10, `${there} of 20`)
    await rollBack()
    return `${there} of 20 calls go to three quarters of the weight`
  },
  'limit: a 429 is shown, and counts down': async (page) => {
    await call('PUT', '/api/config/type/services/chat', { rateLimit: { capacity: 1, refillRate: 1, scope: 'model' } })
    await page.goto(`${base}playground?model=demo-ollama`)
    await page.waitForSelector('.live.live')
    // Others take all that there is.
    const others = setInterval(() => void chat('demo-ollama').catch(() => undefined), 100)
    const limited = page.getByText('Over the limit. Next request allowed in').first()
    try {
      for (let i = 0; i < 10 && !(await limited.isVisible()); i++) {
        await page.fill('.ta', `again ${i}`)
        await page.keyboard.press('Control+Enter')
        await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' })
      }
      await page.locator('.conv .note.bd').first().waitFor()
      assert.match(await page.locator('.conv .note.bd').first().innerText(), /limit/)
    } finally {
      clearInterval(others)
    }
    await rollBack()
  },
  'keys: limits, budgets, change, rotate, shown once, revoke': async (page) => {
    await page.goto(`${base}keys?create=1`)
    await page.getByLabel('Id optional').fill('flow-key')
    await page.getByLabel('Tokens a minute').fill('many')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.locator('.drawer .msg', { hasText: 'limits.tokensPerMinute' }).waitFor()
    await page.getByLabel('Tokens a minute').fill('5000')
    await page.getByLabel('day, cost').fill('2.5')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const secret = await page.locator('dialog pre').first().innerText()
    assert.match(secret, /^pb-/)
    await page.getByRole('button', { name: 'I have copied it' }).click()
    const row = page.locator('tr', { hasText: 'flow-key' })
    await row.getByRole('button').first().click()
    await page.getByLabel('Tenant optional').fill('acme')
    await page.getByLabel('day, cost').fill('')
    await page.getByRole('button', { name: 'Save the key' }).click()
    await page.locator('.toast', { hasText: 'is saved' }).waitFor()
    const [stored] = (await call('GET', '/api/auth/keys')).body.data.filter((key) => key.id === 'flow-key')
    assert.deepEqual([stored.tenant, stored.limits.tokensPerMinute, stored.budgets], ['acme', 5000, {}])
    await row.getByRole('button').first().click()
    await page.locator('.drawer').getByRole('button', { name: 'Rotate' }).click()
    await page.locator('dialog').getByRole('button', { name: 'Rotate' }).click()
    await page.locator('dialog pre', { hasText: /^pb-/ }).first().waitFor()
    assert.notEqual(await page.locator('dialog pre').first().innerText(), secret)
    await page.getByRole('button', { name: 'I have copied it' }).click()
    await row.getByRole('button').first().click()
    await page.locator('.drawer').getByRole('button', { name: 'Revoke' }).click()
    await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click()
    await row.getByText('Revoked').waitFor()
    assert.equal((await page.content()).includes(secret), false)
    assert.equal(await page.evaluate((text) => JSON.stringify({ ...localStorage }).includes(text) || location.href.includes(text), secret), false)
  },
  'keys: one is created, used, revoked and refused': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(`${url}/keys?create=1`)
      await logIn(page, tokens.ADMIN)
      await page.getByLabel('Id optional').fill('flow-key')
      const began = Date.now()
      await page.getByRole('button', { name: 'Create the key' }).click()
      const secret = await page.locator('dialog pre').first().innerText()
      await page.getByRole('button', { name: 'I have copied it' }).click()
      const models = () => fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } }).then((reply) => reply.status)
      assert.equal(await models(), 200)
      const time = Date.now() - began
      await page.locator('tr', { hasText: 'flow-key' }).getByRole('button').first().click()
      await page.locator('.drawer').getByRole('button', { name: 'Revoke' }).click()
      await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click()
      await page.locator('tr', { hasText: 'flow-key' }).getByText('Revoked').waitFor()
      assert.equal(await models(), 401)
      await logOut(page)
      return `created and used in ${time} ms`
    }),
  'quota: switched on, bars grow': (page) =>
    withSettings(['quota.enabled=false'], async (url) => {
      await page.goto(`${url}/spend`)
      await page.getByRole('link', { name: 'Go to the ledger' }).click()
      await page.getByRole('button', { name: 'Switch the ledger on' }).click()
      await page.getByText('Can be changed now').waitFor()
      await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.text())
      await page.getByRole('button', { name: 'Requests and tokens' }).click()
      await within(8000, page, () => document.querySelector('.spendplot .u-axis') !== null)
    }),
  'quota: one of the models only, and all again': async (page) => {
    await call('PUT', '/api/config/quota', { enabled: true })
    for (const model of ['demo-chat', 'demo-claude']) assert.equal((await chat(model)).status, 200, model)
    await page.goto(`${base}quota?window=MINUTE`)
    await page.waitForURL('**/spend?window=MINUTE&view=usage')
    const names = () => page.locator('.cols.quota tbody tr code').allInnerTexts()
    await page.locator('.cols.quota').getByRole('button', { name: 'demo-claude' }).waitFor()
    assert.ok((await names()).includes('demo-chat'))
    await page.locator('.cols.quota').getByRole('button', { name: 'demo-claude' }).click()
    await within(2000, page, () => document.querySelectorAll('.cols.quota tbody tr').length === 1)
    assert.deepEqual(await names(), ['demo-claude'])
    assert.deepEqual([...new Set(await page.locator('.tw tbody td:nth-child(3)').allInnerTexts())], ['demo-claude'])
    assert.ok(page.url().includes('only='))
    await page.reload() // the address has the filter
    await within(8000, page, () => document.querySelectorAll('.cols.quota tbody tr').length === 1)
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()])
    const csv = await readFile(await file.path(), 'utf8')
    assert.ok(csv.includes('demo-claude') && !csv.includes('demo-chat'), csv)
    await page.getByRole('button', { name: 'Show all again, not only demo-claude' }).click()
    await within(2000, page, () => document.querySelectorAll('.cols.quota tbody tr').length > 1)
  },
  'spend: who spent most, by team, user and model, in the currency, and as a file': (page) =>
    withSettings(['quota.enabled=true', 'prices.currency=EUR', 'prices.models=[{model: "*", input: 300, output: 900}]'], async (url) => {
      const ask = (tenant, user) =>
        fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-tenant-id': tenant }, body: JSON.stringify({ model: 'demo-chat', user, messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.text())
      for (let i = 0; i < 6; i++) await ask('acme', 'ann')
      await ask('=cmd|x', 'bob')
      await page.goto(`${url}/spend`)
      await page.locator('.spendhead h2 >> text=/^0\\.\\d+ EUR in /').waitFor()
      const first = page.locator('.spt tbody tr').first()
      assert.match(await first.innerText(), /acme/)
      await page.locator('.spendplot canvas').waitFor()
      await page.locator('.leg >> text=acme').waitFor()
      for (const period of ['Week', 'Day', 'Range', 'Month']) {
        await page.getByRole('button', { name: period, exact: true }).click()
        await page.locator('.spt tbody tr >> text=acme').waitFor()
      }
      const waiting = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Download CSV' }).click()
      const file = await readFile(await (await waiting).path(), 'utf8')
      assert.match(file, /^\uFEFFtenant,currency,from,to,cost,/)
      assert.match(file, /\r\n'=cmd\|x,EUR,/)
      await page.getByTitle('Only acme').first().click()
      await page.locator('.spt tbody tr >> text=demo-chat').waitFor()
      await page.getByRole('button', { name: 'User', exact: true }).click()
      await page.locator('.spt tbody tr >> text=ann').waitFor()
      assert.equal(await page.locator('.spt tbody tr >> text=bob').count(), 0)
      for (const width of [390, 1024, 1440]) {
        await page.setViewportSize({ width, height: 800 })
        await within(3000, page, () => document.documentElement.scrollWidth === document.documentElement.clientWidth) // the chart follows the window
      }
      await page.setViewportSize({ width: 1280, height: 800 })
      await page.goto(`${url}/playground?model=demo-chat&second=demo-fast`)
      await page.fill('.ta', 'hi')
      await page.keyboard.press('Control+Enter')
      await page.locator('.meta >> text=/\\d EUR/').first().waitFor()
    }),
  'batches: how far one is, and that it is stopped by the keyboard on a telephone': (page) =>
    withSettings(['batches.enabled=true', 'batches.max-in-flight=1'], async (url) => {
      await page.setViewportSize({ width: 390, height: 800 })
      await page.goto(`${url}/batches`)
      await page.getByRole('heading', { name: 'No batches' }).waitFor()
      const form = new FormData()
      const line = (n) => JSON.stringify({ custom_id: `${n}`, method: 'POST', url: '/v1/chat/completions', body: { model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] } })
      form.set('purpose', 'batch')
      form.set('file', new Blob([Array.from({ length: 50_000 }, (_, n) => line(n)).join('\n')]), 'in.jsonl')
      const file = await fetch(`${url}/v1/files`, { method: 'POST', body: form }).then((reply) => reply.json())
      const made = await fetch(`${url}/v1/batches`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' }) }).then((reply) => reply.json())
      const row = page.getByRole('listitem').filter({ hasText: made.id })
      await row.getByText('running').waitFor()
      await row.getByText(/^[1-9][\d,]* of 50,000 lines/).waitFor()
      await row.getByText(/no key · \/v1\/chat\/completions · .* lines a minute · cost 0/).waitFor()
      await row.getByText(/^ends in about /).waitFor()
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0)
      await row.getByRole('button', { name: `Stop ${made.id}` }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').getByText(/lines do not run any more/).waitFor()
      await page.getByRole('button', { name: 'Stop the batch' }).focus()
      await page.keyboard.press('Enter')
      await row.getByText('stopped', { exact: true }).waitFor()
      assert.equal(await row.getByRole('button', { name: /^Stop/ }).count(), 0)
    }),
  'batches: a file is dropped, its lines are told, the failed ones why, and the results are downloaded': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(`${url}/batches`)
      await logIn(page, tokens.ADMIN)
      const line = (id, body) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }], ...body } })
      const drop = async (text) => {
        const files = await page.evaluateHandle((content) => {
          const carried = new window.DataTransfer()
          carried.items.add(new window.File([content], 'requests.jsonl'))
          return carried
        }, text)
        await page.locator('.drop').dispatchEvent('drop', { dataTransfer: files })
      }
      await page.locator('.drop').waitFor()
      await drop(`${line('good')}\nnot json\n`)
      await page.getByText('Line 2: it is no JSON.').waitFor()
      assert.ok(await page.getByRole('button', { name: 'Start the batch' }).isDisabled())
      await drop(`${Array.from({ length: 60 }, (_, n) => line(`good-${n}`)).join('\n')}\n${line('bad', { messages: 7 })}\n`)
      await page.getByText(/The first 61 lines are well formed, for \/v1\/chat\/completions and demo-chat\./).waitFor()
      await page.getByRole('button', { name: 'Start the batch' }).click()
      const drawer = page.locator('.drawer')
      await drawer.locator('.tag', { hasText: 'completed' }).waitFor({ timeout: 60_000 })
      await drawer.getByText('Page 1 of 2').waitFor()
      await drawer.getByRole('button', { name: 'Next' }).click()
      await drawer.getByText('Page 2 of 2').waitFor()
      await drawer.getByRole('button', { name: 'Failed' }).click()
      await drawer.locator('.blines li', { hasText: 'bad' }).waitFor()
      await page.waitForFunction(() => document.querySelectorAll('.blines li').length === 1)
      assert.match(await drawer.locator('.blines li').innerText(), /messages/)
      assert.match(await drawer.innerText(), /demo-chat[^]*Began[^]*20\d\d-/)
      for (const [name, has] of [['Results', '"custom_id":"good-59"'], ['Errors', '"custom_id":"bad"']]) {
        const waiting = page.waitForEvent('download')
        await drawer.getByRole('link', { name }).click()
        assert.ok((await readFile(await (await waiting).path(), 'utf8')).includes(has), name)
      }
    }, '--set', 'batches.enabled=true'),
  'budgets: "0.02 of 20 USD", in the list and at the key': (page) =>
    withSecurity(async (url, tokens) => {
      const issued = await fetch(`${url}/api/auth/keys`, { method: 'POST', headers: { authorization: `Bearer ${tokens.ADMIN}`, 'content-type': 'application/json' }, body: JSON.stringify({ id: 'paid', tenant: 'acme', budgets: { month: { cost: 20 } } }) }).then((reply) => reply.json())
      const reply = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${issued.data.key}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }) })
      assert.equal(reply.status, 200)
      await reply.text()
      // The address of before still leads to them.
      await page.goto(`${url}/quota`)
      await logIn(page, tokens.ADMIN)
      await page.waitForURL('**/spend?view=ledger')
      await page.locator('.bdg >> text=/^0\\.\\d+ of 20 USD$/').waitFor()
      await page.goto(`${url}/keys?key=paid`)
      await page.locator('.drawer dd >> text=/^0\\.\\d+ of 20 USD/').waitFor()
      await page.locator('.kt td.kcost >> text=/ USD/').first().waitFor()
    }, '--set', 'quota.enabled=true', '--set', 'prices.models=[{model: "*", input: 300, output: 900}]'),
  'bulk: the instances shown are switched off, and one undo takes it back': async (page) => {
    const off = async () => (await instances()).filter((instance) => instance.enabled === false).map((instance) => instance.name)
    const wanted = (await instances()).filter((instance) => instance.name === 'demo-chat').length
    await page.goto(`${base}services?q=demo-chat%40`)
    await page.waitForSelector('.svc tbody tr')
    await within(4000, page, (n) => document.querySelectorAll('.svc tbody tr').length === n, wanted)
    await page.getByRole('button', { name: `The ${wanted} instances shown` }).click()
    await page.getByRole('menuitem', { name: `Disable ${wanted} instances` }).click()
    const dialog = page.locator('dialog[open]')
    assert.match(await dialog.innerText(), /requests a second go to them now\. This makes \d+ versions; one undo takes all of them back\./)
    await dialog.getByRole('button', { name: `Disable ${wanted} instances` }).click()
    await page.locator('.toast', { hasText: `${wanted} instances were changed.` }).waitFor()
    assert.deepEqual(await off(), Array.from({ length: wanted }, () => 'demo-chat'))
    assert.equal((await chat('demo-chat')).status, 503)
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await within(4000, page, () => document.querySelectorAll('.svc tbody [role=switch][aria-checked=false]').length === 0)
    assert.deepEqual(await off(), [])
    assert.equal((await chat('demo-chat')).status, 200)
  },
  'chat: the conversation is there after a reload, until it is cleared': async (page) => {
    const asked = `Remember ${randomBytes(4).toString('hex')}`
    await page.goto(`${base}playground?model=demo-chat`)
    await page.waitForSelector('.live.live')
    if ((await page.getByRole('button', { name: 'Clear' }).count()) > 0) await page.getByRole('button', { name: 'Clear' }).click()
    await page.fill('.ta', asked)
    await page.keyboard.press('Control+Enter')
    await page.locator('.composer').getByRole('button', { name: 'Send' }).waitFor()
    const answer = await page.locator('.conv .txt').last().innerText()
    await page.reload()
    await page.locator('.conv').getByText(asked, { exact: true }).waitFor()
    assert.equal(await page.locator('.conv .txt').last().innerText(), answer)
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.reload()
    await page.waitForSelector('.live.live')
    assert.equal(await page.getByText(asked).count(), 0)
    assert.equal(await page.evaluate(() => localStorage.getItem('patchbay.chat')), null)
  },
  'quota: what the ledger depends on, and how often it was not there': async (page) => {
    const url = `http://127.0.0.1:${await freePort()}`
    const shared = demo(url, '--traffic=false', '--set', 'quota.enabled=true', '--set', 'quota.distributed.enabled=true', '--set', `redis.url=redis://127.0.0.1:${await freePort()}`)
    try {
      await ready(url)
      await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] }) })
      await page.goto(`${url}/spend?view=ledger`)
      await page.locator('[data-part=probe]', { hasText: 'does not answer' }).waitFor()
      await page.locator('[data-part=degradations]', { hasText: '1 since the start' }).waitFor()
    } finally {
      await kill(shared)
    }
  },
  'contents of calls: kept when asked for, replayed, forgotten': async (page) => {
    const said = `What is in jack ${randomBytes(4).toString('hex')}?`
    const ask = async () => (await call('POST', '/v1/chat/completions', { model: 'demo-chat', stream: true, temperature: 0.3, messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: said }] }, { 'x-api-key': 'sk-flow-0123456789' })).headers.get('x-request-id')
    const before = await ask()
    await page.goto(`${base}calls?call=${before}`)
    await page.locator('.drawer').getByText('Headers and texts of calls are not kept.').waitFor()
    assert.equal(await page.getByText('contents are kept').count(), 0)
    await page.locator('.drawer').getByRole('link', { name: 'Change it in the settings' }).click()
    await page.getByRole('button', { name: 'Contents too' }).click()
    await page.getByText('Keep of each call, beside its record is saved.').waitFor()
    const id = await ask()
    await page.goto(`${base}calls?call=${id}`)
    const drawer = page.locator('.drawer')
    await drawer.getByText('contents are kept').waitFor()
    assert.equal(await page.locator('.callpage .tag').innerText(), 'contents are kept')
    assert.ok((await drawer.getByLabel('Request', { exact: true }).innerText()).includes(said))
    const headers = await drawer.locator('[data-part=headers]').innerText()
    assert.ok(headers.includes('****6789') && !headers.includes('sk-flow'), headers)
    await drawer.getByRole('button', { name: 'Raw' }).click()
    assert.match(await drawer.locator('pre[aria-label=Answer]').innerText(), /^data: /)
    await drawer.getByRole('link', { name: 'Replay' }).click()
    await page.waitForURL('**/playground?**')
    assert.equal(await page.locator('.composer textarea').inputValue(), said)
    assert.equal(await page.getByLabel('System prompt').inputValue(), 'Be brief.')
    await page.keyboard.press('Control+Enter')
    await page.locator('.composer').getByRole('button', { name: 'Send' }).waitFor()
    assert.equal(await page.evaluate((text) => JSON.stringify({ ...localStorage }).includes(text) || location.href.includes(encodeURIComponent(text)), said), false)
    await page.goto(`${base}settings`)
    await page.getByRole('button', { name: 'Nothing', exact: true }).click()
    await page.getByText('Keep of each call, beside its record is saved.').waitFor()
    assert.equal((await call('GET', `/api/monitoring/calls/${id}/content`)).body.kept, 'none')
  },
  'settings: strategy, residency, resumed streams, cache, calls on disk, and an alert that is tried': async (page) => {
    const got = []
    const receiver = createBackend((request, reply) => {
      let text = ''
      request.on('data', (part) => (text += part)).on('end', () => {
        got.push(JSON.parse(text))
        reply.end()
      })
    })
    await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve))
    try {
      await page.goto(`${base}settings`)
      const setting = async (path) => (await call('GET', path)).body.data
      const chatType = () => setting('/api/config/type/services/chat')
      const saved = async (read, what) => {
        for (let i = 0; i < 100; i++) {
          if (what(await read())) return
          await page.waitForTimeout(50)
        }
        assert.fail(`it was not saved: ${JSON.stringify(await read())}`)
      }
      const routing = page.getByRole('region', { name: 'Routing of a service' })
      await routing.getByLabel('Which instance gets a request').selectOption('least_time')
      await saved(chatType, (chat) => chat.loadBalancer === 'least_time')
      const loads = (chat) => chat.residency?.enabled === true
      const resumes = (chat) => chat.streams?.resume === 'continue'
      const before = await chatType()
      await routing.getByText('Load models for requests').click()
      await saved(chatType, (chat) => loads(chat) !== loads(before))
      await routing.getByText('Let another instance go on').click()
      await saved(chatType, (chat) => resumes(chat) !== resumes(before))
      const cache = page.getByRole('region', { name: 'Answer cache' })
      await cache.getByText('Embeddings', { exact: true }).click()
      await saved(() => setting('/api/config/answer-cache'), (now) => now.services.join() === 'embedding')
      await cache.getByLabel('Kept for').fill('2h')
      await cache.getByRole('button', { name: 'Save' }).click()
      await saved(() => setting('/api/config/answer-cache'), (now) => now.ttl === 7_200_000)
      const disk = page.getByRole('region', { name: 'Calls on disk' })
      await disk.getByText('Keep the records of calls').click()
      await saved(() => setting('/api/config/calls-file'), (now) => now.enabled)
      const alerts = page.getByRole('region', { name: 'Alerts' })
      await alerts.getByRole('button', { name: 'Add a webhook' }).click()
      const secret = `http://127.0.0.1:${receiver.address().port}/hook/very-secret`
      await alerts.getByLabel('Address').fill(secret)
      await alerts.getByText('models that fail').click()
      await alerts.getByRole('button', { name: 'Send a test' }).click()
      await alerts.getByText('The receiver took the test.').waitFor()
      assert.match(got[0].text, /^\[TEST\] /)
      await alerts.getByRole('button', { name: 'Save' }).click()
      await saved(() => setting('/api/config/alerts'), (now) => now.webhooks.ops?.url === '****cret' && now.webhooks.ops.kinds.includes('budget') && !now.webhooks.ops.kinds.includes('model'))
      await page.reload()
      await alerts.getByLabel('Address').waitFor()
      assert.equal(await alerts.getByLabel('Address').inputValue(), '****cret')
      await alerts.getByRole('button', { name: 'Send a test' }).click() // the stored address is used
      await alerts.getByText('The receiver took the test.').waitFor()
      assert.equal(got.filter(({ text }) => text.startsWith('[TEST] ')).length, 2) // breakers of the demo may tell, too
      await alerts.getByRole('button', { name: 'Remove' }).click()
      await alerts.getByRole('button', { name: 'Save' }).click()
      await saved(() => setting('/api/config/alerts'), (now) => Object.keys(now.webhooks).length === 0)
    } finally {
      receiver.close()
      await call('POST', '/api/config/type/reset')
    }
  },
  'help leads to the documentation, in the language of the console': async (page) => {
    const opened = async (click) => {
      const [tab] = await Promise.all([browser.waitForEvent('page'), click()])
      await tab.waitForLoadState()
      return tab
    }
    const { headers } = await chat('no-such-model')
    await page.goto(`${base}calls?call=${headers.get('x-request-id')}`)
    const explained = await opened(() => page.locator('.drawer').getByRole('link', { name: 'What to do' }).click())
    assert.equal(explained.url(), `${base}docs/errors?lang=en#service_unavailable`)
    assert.match(await explained.locator(':target').innerText(), /^service_unavailable/)
    // The section stays in the other language.
    await explained.locator('#language').click()
    await explained.waitForURL('**/docs/errors?lang=zh#service_unavailable')
    assert.equal(await explained.locator('h1').innerText(), '\u9519\u8bef\u7801')
    await explained.close()
    await page.goto(base)
    await page.waitForSelector('.live.live')
    await page.keyboard.press('Control+k')
    await page.locator('.palette input').fill('traffic policy')
    await page.getByRole('option', { name: 'Traffic policy', exact: true }).waitFor()
    const found = await opened(() => page.keyboard.press('Enter'))
    assert.equal(found.url(), `${base}docs/traffic?lang=en`)
    await found.close()
  },
  'hostile text is text': async (page) => {
    let dialogs = 0
    page.on('dialog', (dialog) => {
      dialogs++
      void dialog.dismiss()
    })
    const [first] = await instances()
    for (const [index, name] of hostile.entries()) {
      const reply = await call('POST', '/api/config/instance/add/chat', { name, baseUrl: first.baseUrl, headers: { [`X-H${index}`]: name } })
      if (reply.status >= 300 && !/^(400|409)$/.test(String(reply.status))) throw new Error(`${name}: ${reply.status}`)
      await call('POST', '/v1/chat/completions', { model: name, messages: [{ role: 'user', content: name }] })
    }
    for (const path of ['', 'services', 'calls', 'spend', 'versions', 'playground']) {
      await page.goto(base + path)
      await page.waitForSelector('.live.live')
      await page.waitForTimeout(700)
      assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('main script, main iframe, main img, main a[href^="javascript:"]')].map((node) => node.outerHTML)), [], path)
      assert.deepEqual(await page.evaluate(() => window.violations), [], path)
    }
    await page.goto(`${base}playground?model=demo-chat`)
    await page.waitForSelector('.live.live')
    for (const text of hostile) {
      await page.fill('.ta', text)
      await page.keyboard.press('Control+Enter')
      await page.waitForFunction(() => !document.body.innerText.includes('Stop'), undefined, { timeout: 8000 })
    }
    assert.equal(await page.locator('.conv script, .conv iframe, .conv img, .conv svg:not(.tick):not(.ic)').count(), 0)
    assert.equal(dialogs, 0)
    await rollBack()
  },
  'hostile text, item by item: summary, header, answer, error': async (page) => {
    let dialogs = 0
    page.on('dialog', (dialog) => {
      dialogs++
      void dialog.dismiss()
    })
    const clean = async (what) => {
      const bad = await page.evaluate(() => [...document.querySelectorAll('#root script, #root iframe, #root img, #root svg[onload], #root a[href^="javascript:"]')].map((node) => node.outerHTML))
      assert.deepEqual(bad, [], what)
      assert.deepEqual(await page.evaluate(() => window.violations), [], what)
      assert.equal(dialogs, 0, what)
    }
    const refused = []
    const seen = async (locator, text, what) => {
      await locator.waitFor()
      const shown = (await locator.innerText()).replace(/\s+/g, ' ')
      assert.ok(shown.includes(text), `${what}: ${text} is not in ${shown.slice(0, 400)}`)
      await clean(what)
    }
    await withBackend([], async (backend) => {
      for (const item of hostile) {
        const add = (headers) => call('POST', '/api/config/instance/add/chat', { name: item, baseUrl: backend, headers })
        let reply = await add({ 'X-Note': item })
        if (reply.status === 400) {
          refused.push(`header ${item}: ${reply.body.message}`)
          reply = await add({})
        }
        assert.ok(reply.status < 300, `${item}: ${reply.status} ${JSON.stringify(reply.body)}`)
        const { version, instanceId } = reply.body.data
        const known = (await call('GET', '/api/config/version?details=true')).body.data.find((one) => one.version === version)
        await page.goto(`${base}versions?version=${version}`)
        await seen(page.locator('.v.sel .vsum'), known.summary.replace(/\s+/g, ' '), 'version summary')
        if (!refused.some((text) => text.startsWith(`header ${item}:`))) {
          await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${instanceId}`)}`)
          await within(20_000, page, (text) => document.querySelector('.drawer textarea[name=headers], .drawer textarea')?.value.includes(text), item)
          await clean('header value')
        }
        const failed = await call('POST', '/v1/chat/completions', { model: item, messages: [{ role: 'user', content: `fail:${item}` }] })
        const requestId = failed.headers.get('x-request-id')
        const { body: told } = await call('GET', `/api/monitoring/calls/${requestId}`)
        await page.goto(`${base}calls?call=${requestId}`)
        await seen(page.locator('.drawer'), (told.tries[0].errorText ?? told.errorCode).replace(/\s+/g, ' '), 'error of the backend')
        await page.goto(`${base}playground?model=${encodeURIComponent(item)}`)
        await page.waitForSelector('.live.live')
        await page.fill('.ta', item)
        await page.keyboard.press('Control+Enter')
        await page.waitForFunction((text) => document.querySelector('.conv')?.innerText.split(text).length > 2, item, { timeout: 8000 })
        await clean('prompt and answer')
      }
    })
    await rollBack()
    return `${hostile.length} items${refused.length === 0 ? '' : `; refused by the gateway: ${refused.join('; ')}`}`
  },
  'discover: the models of a backend are added': (page) =>
    withBackend(['flow-small', 'flow-large', '<img src=x onerror=alert(1)>'], async (backend) => {
      await page.goto(`${base}services?add=chat`)
      await page.getByLabel('Address', { exact: true }).fill(backend)
      await page.getByRole('button', { name: 'Find its models' }).click()
      const began = Date.now()
      await page.getByRole('checkbox', { name: '<img' }).uncheck()
      const time = Date.now() - began
      assert.equal(await page.locator('.found img').count(), 0)
      await page.getByRole('button', { name: /^Add 2 models as version/ }).click()
      await page.locator('.toast', { hasText: 'is added.' }).waitFor()
      const added = (await instances()).filter((instance) => instance.baseUrl === backend)
      assert.deepEqual(added.map((instance) => instance.name).sort(), ['flow-large', 'flow-small'])
      assert.equal((await chat('flow-small')).status, 200)
      await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${added[0].instanceId}`)}`)
      await page.locator('.drawer').getByRole('button', { name: 'Send a real call' }).click()
      await page.locator('.drawer .note.ok').waitFor()
      await rollBack()
      return `found in ${time} ms`
    }),
  'add and remove a backend: any spelling of its address, at most four clicks each, tried at once': (page) =>
    withOllama(['flow-llama:8b', 'nomic-embed-text:latest'], async (backend) => {
      const clicks = await countClicks(page)
      await page.goto(`${base}services`)
      await page.waitForSelector('.live.live')
      const before = (await call('GET', '/api/config/version/next')).body.data
      for (const isLater of [false, true]) {
        await clicks(true)
        await page.locator('.addb').click()
        // The field has the focus, and takes what was copied from a call.
        await page.keyboard.type(`${new URL(backend).host}/api/chat`)
        await page.keyboard.press('Enter')
        await page.getByText('This is ollama.').waitFor({ timeout: 30_000 })
        assert.ok(await page.getByRole('checkbox', { name: 'flow-llama:8b' }).isChecked())
        if (isLater) await page.getByText('Serve also what it lists later').click()
        await page.locator('.drawer footer .btn.pri').click()
        const tries = page.getByRole('link', { name: 'Try flow-llama:8b' })
        await tries.waitFor()
        assert.equal(await page.getByText('Leave it and lose them?').count(), 0)
        await tries.click()
        await page.waitForURL(/\/playground\?model=flow-llama/)
        assert.ok((await clicks()) <= 4, `added by ${await clicks()} clicks`)
        const { chat: chats, embedding } = (await call('GET', '/api/config/type')).body.data
        const own = [chats, embedding].map((service) => service.instances.filter((instance) => instance.baseUrl === backend))
        assert.deepEqual(own.map((list) => list.map((one) => [one.name ?? '', one.adapter, one.models ?? []])), isLater ? [[['', 'ollama', ['discover']]], [['', 'ollama', ['discover']]]] : [[['flow-llama:8b', 'ollama', []]], [['nomic-embed-text', 'ollama', []]]])
        assert.ok(chats.residency.enabled && embedding.residency.enabled)
        await clicks(true)
        await page.goto(`${base}services?q=${encodeURIComponent(new URL(backend).host)}`)
        for (const row of [1, 2]) {
          await page.locator('.svc tbody .mtd button').first().click()
          await page.getByRole('menuitem', { name: 'Remove' }).click()
          await page.locator('dialog .btn.danger').click()
          await page.locator('dialog').waitFor({ state: 'detached' })
          await page.waitForFunction((left) => document.querySelectorAll('.svc tbody .mtd button').length === left, 2 - row)
          if (row === 1) assert.ok((await clicks()) <= 4, `removed by ${await clicks()} clicks`)
        }
        assert.equal((await instances()).filter((instance) => instance.baseUrl === backend).length, 0)
      }
      // One version for each addition, and one for each of the four removals.
      assert.equal((await call('GET', '/api/config/version/next')).body.data, before + 6)
      await rollBack()
    }),
  'keys: models are chosen from those that there are': async (page) => {
    await page.goto(`${base}keys?create=1`)
    const picks = page.getByRole('group', { name: 'Choose models' })
    await picks.getByRole('button', { name: 'demo-claude' }).click()
    await page.getByLabel('Models', { exact: false }).first().press('End')
    await page.keyboard.type(', demo-gem')
    await picks.getByRole('button', { name: 'demo-gemini' }).click()
    assert.equal(await page.getByPlaceholder('llama3*, gpt-4o').inputValue(), 'demo-claude, demo-gemini')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.locator('dialog', { hasText: 'only shown' }).or(page.locator('dialog .code')).first().waitFor()
    const made = (await call('GET', '/api/auth/keys')).body.data.find((key) => key.models?.includes('demo-gemini'))
    assert.deepEqual(made.models, ['demo-claude', 'demo-gemini'])
    await call('DELETE', `/api/auth/keys/${made.id}`)
  },
  'what is typed survives the end of a session and a restart, and the form says why one is out': async (page) => {
    const token = randomBytes(24).toString('hex')
    const url = `http://127.0.0.1:${await freePort()}`
    const start = async () => {
      const other = demo(url, '--traffic=false', '--set', 'security.enabled=true', '--set', 'security.allow-keyless=true', '--set', `security.tokens=[{name: ann, role: ADMIN, token-sha256: "${createHash('sha256').update(token).digest('hex')}"}]`)
      await ready(url)
      return other
    }
    let other = await start()
    try {
      await page.context().clearCookies({ name: 'patchbay_session' }) // cookies of another port of this host
      await page.goto(`${url}/keys?create=1`)
      assert.equal(await page.locator('.login .note').count(), 0)
      await logIn(page, token)
      await page.getByLabel('Tenant', { exact: false }).first().fill('half typed')
      await page.context().clearCookies({ name: 'patchbay_session' })
      await page.locator('.login .note', { hasText: 'This browser has no session any more' }).waitFor({ timeout: 60_000 })
      await logIn(page, token)
      await page.waitForFunction(() => [...document.querySelectorAll('.drawer input')].some((input) => input.value === 'half typed'), undefined, { timeout: 20_000 })
      // It keeps its data in memory, and so does not know the session when it is back.
      await kill(other)
      other = await start()
      await page.locator('.login .note', { hasText: 'the gateway does not know this session' }).waitFor({ timeout: 60_000 })
      await logIn(page, token)
      await page.waitForFunction(() => [...document.querySelectorAll('.drawer input')].some((input) => input.value === 'half typed'), undefined, { timeout: 20_000 })
      await page.locator('.drawer').getByRole('button', { name: 'Discard' }).click()
      await page.getByRole('button', { name: 'Leave', exact: true }).click()
      await page.goto(`${url}/keys?create=1`)
      await page.locator('.drawer input').first().waitFor()
      assert.equal(await page.evaluate(() => [...document.querySelectorAll('.drawer input')].some((input) => input.value === 'half typed')), false)
    } finally {
      await kill(other)
    }
  },
  'a gateway that is away: pages open all the same, and one that is not there yet waits for it': async (page) => {
    // The file of one page cannot be loaded ahead.
    await page.route('**/assets/versions*', (route) => route.abort())
    await page.route('**/assets/**/versions*', (route) => route.abort())
    await page.goto(base)
    await page.waitForSelector('.live.live')
    await page.evaluate(() => {
      window.mark = 1
    })
    await page.waitForFunction(() => ['spend', 'keys', 'settings', 'batches'].every((name) => performance.getEntriesByType('resource').some((entry) => entry.name.includes(`/${name}`))), undefined, { timeout: 60_000 })
    await stopGateway()
    try {
      for (const name of ['Spend', 'Settings', 'Keys', 'Services']) {
        await page.locator('.nav a', { hasText: name }).click()
        await page.locator('.top h1', { hasText: name }).waitFor({ timeout: 5000 })
      }
      await page.locator('.nav a', { hasText: 'Versions' }).click()
      await page.locator('main .note', { hasText: 'The gateway does not answer.' }).waitFor({ timeout: 10_000 })
    } finally {
      await page.unroute('**/assets/versions*')
      await page.unroute('**/assets/**/versions*')
      await startGateway()
    }
    await page.locator('main', { hasText: 'Version 1' }).or(page.locator('.vg')).first().waitFor({ timeout: 30_000 })
    assert.equal(await page.evaluate(() => window.mark), 1)
  },
  'break it: the breaker opens, traffic moves, the breaker closes': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.jr2')
    const pair = (await instances()).filter((instance) => instance.name === 'demo-chat').map((instance) => instance.instanceId)
    await page.getByLabel('Instance to break').selectOption(pair[0])
    await page.getByRole('button', { name: 'Break it' }).click()
    await page.getByRole('button', { name: /Mend it now/ }).waitFor()
    const began = Date.now()
    const state = async () => (await call('GET', '/api/monitoring/circuit-breaker')).body.instances.find((one) => one.id === pair[0]).state
    const row = page.locator(`[data-row="chat ${pair[0]}"]`)
    await row.getByText(/Open/).waitFor({ timeout: 60_000 })
    const opened = Date.now() - began
    // By host and cause, because all models of a host fail together.
    assert.match(await page.locator('.head').innerText(), new RegExp(`${new URL(pair[0].split('@')[1]).host}.*broken on purpose`))
    // Callers notice nothing: the other instance answers, while the breaker is open.
    for (let i = 0; i < 4; i++) {
      const reply = await chat('demo-chat')
      assert.equal(reply.status, 200)
      const { body: told } = await call('GET', `/api/monitoring/calls/${reply.headers.get('x-request-id')}`)
      if ((await state()) === 'OPEN') assert.equal(told.instance, pair[1])
    }
    await row.getByText('Closed').waitFor({ timeout: 120_000 })
    return `open ${(opened / 1000).toFixed(1)} s after it broke, closed after ${((Date.now() - began) / 1000).toFixed(1)} s`
  },
  'two hours of live data: the memory of the tab is flat': async (page) => {
    const reply = await fetch(`${gateway}/api/monitoring/live?topics=snapshot`)
    const reader = reply.body.getReader()
    let text = ''
    while (!/data: .*\n\n/.test(text)) text += Buffer.from((await reader.read()).value).toString()
    await reader.cancel()
    const snapshot = JSON.parse(/data: (.*)\n\n/.exec(text)[1])
    const model = (await call('GET', '/api/monitoring/calls?limit=1')).body.calls[0]
    // The tab's own reader gets a stream that this flow writes, and a clock that it moves.
    await page.addInitScript(() => {
      const [now, ask] = [Date.now, window.fetch]
      window.skew = 0
      Date.now = () => now.call(Date) + window.skew
      window.fetch = (input, init) => {
        if (!String(input).startsWith('/api/monitoring/live')) return ask(input, init)
        const body = new ReadableStream({ start: (controller) => (window.feed = controller) })
        return Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } }))
      }
    })
    await page.goto(base)
    await page.waitForFunction(() => window.feed !== undefined)
    const session = await page.context().newCDPSession(page)
    await session.send('Performance.enable')
    await session.send('HeapProfiler.enable')
    const heap = async () => {
      await session.send('HeapProfiler.collectGarbage')
      const { metrics } = await session.send('Performance.getMetrics')
      const value = (name) => metrics.find((metric) => metric.name === name).value
      return { mb: value('JSHeapUsedSize') / 1e6, nodes: value('Nodes'), listeners: value('JSEventListeners') }
    }
    const replay = (from, to) =>
      page.evaluate(async ([first, last, one, call]) => {
        const encoder = new TextEncoder()
        for (let i = first; i < last; i++) {
          window.skew += 1000
          const time = new Date(Date.now()).toISOString()
          const event = (name, id, data) => `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`
          let text = ''
          // The list of 10,000 calls is full after 500 of these seconds.
          for (let n = 0; n < 20; n++) text += event('call', `${i}-${n}`, { ...call, requestId: `req_replay_${i}_${n}`, time, durationMs: (i * 7 + n) % 900 })
          const answered = i * 20
          const total = { ...one.total, requests: { ...one.total.requests, answered }, tokensOut: answered * 10 }
          text += event('snapshot', `${i}`, { ...one, time, total, instances: one.instances.map((instance) => ({ ...instance, inFlight: i % 7 })) })
          window.feed.enqueue(encoder.encode(text))
          await new Promise((resolve) => setTimeout(resolve))
        }
      }, [from, to, snapshot, model])
    const readings = []
    for (let second = 0; second < 7200; second += 1800) {
      await replay(second, second + 1800)
      await page.waitForSelector('.live.live')
      readings.push(await heap())
    }
    // All of it has arrived: the last call is found.
    await page.keyboard.press('Control+k')
    await page.keyboard.type('req_replay_7199_1')
    await page.getByText('req_replay_7199_1').first().waitFor()
    const told = readings.map((reading) => `${reading.mb.toFixed(1)} MB, ${reading.nodes} nodes, ${reading.listeners} listeners`).join('; ')
    // The buffers of the charts fill up in the first hour; the second one adds nothing.
    assert.ok(readings[3].mb < readings[1].mb * 1.03 + 0.3, told)
    assert.ok(readings[3].nodes < readings[0].nodes * 1.5 + 200, told)
    return `after 30, 60, 90 and 120 minutes: ${told}`
  },
  'log in and out with a token': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(`${url}/services`)
      await logIn(page, 'wrong')
      await page.getByText('The gateway does not know this token.').waitFor()
      await logIn(page, tokens.ADMIN)
      await page.locator('.svc tbody tr').first().waitFor()
      await page.waitForSelector('.live.live')
      const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href)
      assert.equal(stored.includes(tokens.ADMIN), false)
      assert.equal(await page.evaluate(() => document.cookie), '')
      const [cookie] = (await page.context().cookies(url)).filter((one) => one.httpOnly)
      assert.equal(cookie.sameSite, 'Strict')
      await page.reload()
      await page.waitForSelector('.live.live')
      await logOut(page)
      assert.equal(await page.evaluate(() => fetch('/api/auth/me').then((reply) => reply.status)), 401)
    }),
  'tokens: one is issued, used, rotated, revoked; roles are a table': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(`${url}/keys?tab=tokens`)
      await logIn(page, tokens.ADMIN)
      await page.getByRole('button', { name: 'Issue a token' }).click()
      const dialog = page.locator('dialog[open]')
      await dialog.getByLabel('Name').fill('not allowed')
      await dialog.getByRole('button', { name: 'Issue the token' }).click()
      await dialog.locator('.msg').waitFor()
      await dialog.getByLabel('Name').fill('ci')
      await dialog.getByLabel('Role').selectOption('OPERATOR')
      await dialog.getByRole('button', { name: 'Issue the token' }).click()
      const shown = async () => {
        await dialog.getByText('Shown this once.').waitFor()
        const text = await dialog.locator('pre').first().innerText()
        await dialog.getByRole('button', { name: 'I have copied it' }).click()
        await dialog.waitFor({ state: 'detached' })
        return text
      }
      const who = async (token) => {
        const reply = await fetch(`${url}/api/auth/me`, { headers: { authorization: `Bearer ${token}` } })
        return reply.ok ? (await reply.json()).data.role : reply.status
      }
      const menu = async (item) => {
        await page.getByRole('button', { name: 'More actions: ci' }).click()
        await page.getByRole('menuitem', { name: item }).click()
        await dialog.getByRole('button', { name: item }).click()
      }
      const first = await shown()
      assert.equal(await who(first), 'OPERATOR')
      await menu('Rotate')
      const second = await shown()
      assert.deepEqual([await who(first), await who(second)], [401, 'OPERATOR'])
      await menu('Revoke')
      await page.locator('tr', { hasText: 'ci' }).getByText('Revoked').waitFor()
      assert.equal(await who(second), 401)
      const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + location.href + document.body.innerText)
      assert.equal(kept.includes(first) || kept.includes(second), false)
      await page.getByRole('button', { name: 'Roles' }).click()
      const row = page.locator('.roles tr', { hasText: 'auth:token:manage' })
      await row.waitFor()
      assert.deepEqual(await row.locator('[role=img]').evaluateAll((all) => all.map((one) => one.getAttribute('aria-label'))), ['may not', 'may not', 'may'])
      await logOut(page)
    }),
  'first steps tick themselves; YAML and API calls of an edit': async (page) => {
    await page.goto(base)
    await page.evaluate(() => localStorage.removeItem('patchbay.steps'))
    await page.reload()
    const steps = page.locator('.steps')
    await steps.waitFor()
    await page.locator('.breaks').click()
    await page.locator('.demobar .said').waitFor()
    await steps.locator('li.done', { hasText: 'Break an instance' }).waitFor()
    // Its failures are nobody's: the other instance answers, on the second try.
    await within(60_000, page, () => document.querySelector('.plug, .cb.c-wn') !== null)
    await steps.getByRole('link', { name: 'Read what happened to a call' }).click()
    await page.locator('.cbody .crow').first().click()
    await page.locator('.drawer', { hasText: 'Answered by the second try' }).waitFor()
    assert.equal(await page.locator('.drawer .tlbox i.failed').count() > 0, true)
    const [first] = (await instances()).filter((instance) => instance.name === 'demo-chat')
    await page.goto(`${base}services?edit=${encodeURIComponent(`chat/${first.instanceId}`)}`)
    const drawer = page.locator('.drawer')
    await drawer.getByRole('textbox', { name: 'Weight' }).fill('4')
    await drawer.getByLabel('Backend key').fill('sk-flow-secret')
    await drawer.getByRole('button', { name: 'YAML' }).click()
    const yaml = await drawer.locator('pre').innerText()
    assert.match(yaml, /services:\n {2}chat:\n {4}instances:\n {6}- name: demo-chat/)
    assert.match(yaml, /weight: 4/)
    await page.getByRole('button', { name: 'This page as API calls' }).click()
    const text = await page.locator('dialog[open]').innerText()
    assert.match(text, /curl -X PUT .*instance\/update\/chat/)
    assert.equal((yaml + text).includes('sk-flow-secret'), false)
    await page.keyboard.press('Escape')
    await drawer.getByRole('button', { name: 'Discard' }).click()
    await page.getByRole('button', { name: 'Leave' }).click()
    // Two steps of a slider are one version.
    const versions = async () => (await call('GET', '/api/config/version')).body.data.length
    const before = await versions()
    await page.locator('.svc [role=slider]').first().focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await page.locator('.toast', { hasText: 'Weight is 3.' }).waitFor()
    assert.equal(await versions(), before + 1)
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await page.locator('.toast', { hasText: 'is in force' }).last().waitFor()
    await page.goto(base)
    await steps.locator('li.done', { hasText: 'Change a weight' }).waitFor()
  },
  'a viewer sees everything and may change nothing': (page) =>
    withSecurity(async (url, tokens) => {
      await page.goto(url)
      await logIn(page, tokens.VIEWER)
      await page.waitForSelector('.live.live')
      assert.equal(await page.locator('.nav a', { hasText: 'Keys' }).count(), 0)
      const denied = /Your role VIEWER lacks the permission [a-z:]+:write\./
      const look = async (path, selector, extra = '') => {
        await page.goto(`${url}${path}`)
        await page.waitForSelector('.live.live')
        const control = page.locator(selector).first()
        await control.waitFor()
        assert.equal((await control.isDisabled()) || (await control.getAttribute('aria-disabled')) === 'true', true, `${path} ${selector}`)
        const title = await control.evaluate((node) => node.closest('[title]')?.getAttribute('title') ?? '')
        assert.match(title, denied, `${path} ${selector} ${extra}`)
      }
      await look('/', '.demobar .breaks')
      await look('/services', '.addb')
      await look('/services', '.svc .sw')
      await look('/services?add=chat', '.drawer input[name=baseUrl], .drawer .btn.pri')
      await look('/services?policy=chat', '.drawer .btn.pri')
      // The Tab key reaches what is off, or the words that say why.
      await page.goto(`${url}/services`)
      await page.waitForSelector('.live.live')
      await page.locator('.addb').focus()
      assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-description') !== null), true)
      await page.goto(`${url}/services?policy=chat`)
      await page.locator('.drawer [role=note]').first().focus()
      assert.match(await page.evaluate(() => document.activeElement.textContent), denied)
      await look('/spend?view=ledger', '.empty .btn.pri')
      const changed = await fetch(`${url}/api/config/type/services/tts`, { method: 'PUT', headers: { authorization: `Bearer ${tokens.ADMIN}`, 'content-type': 'application/json' }, body: JSON.stringify({ loadBalancer: 'random' }) })
      assert.equal(changed.status, 200)
      await look('/versions?version=1', '.vg footer .btn.pri')
      await look('/settings', '.panel .sw')
      await page.goto(`${url}/resilience`)
      await page.waitForURL('**/services')
      await page.locator('.svc .mtd button').first().click()
      const item = page.getByRole('menuitem', { name: 'Hold open' })
      assert.equal(await item.getAttribute('aria-disabled'), 'true')
      assert.match(await item.getAttribute('title'), denied)
      await page.keyboard.press('Escape')
      await page.keyboard.press('g')
      await page.keyboard.press('k')
      assert.equal(new URL(page.url()).pathname, '/services')
      await logOut(page)
    }, '--set', 'quota.enabled=false'),
  'processes: one is started, read and stopped, and another one says why it does not start': async (page) =>
    withSecurity(async (url, tokens) => {
      const row = (name) => page.locator('.hands tbody tr', { has: page.getByRole('button', { name: 'Output' }) }).filter({ hasText: name })
      await page.goto(`${url}/services`)
      await logIn(page, tokens.ADMIN)
      await row('works').getByRole('button', { name: 'Start' }).click()
      await row('works').getByText('ready').waitFor({ timeout: 60_000 })
      await page.getByText('1 of 2 are ready').waitFor()
      await row('works').getByRole('button', { name: 'Output' }).click()
      await page.getByLabel('The last lines of works').getByText('weights are read').waitFor()
      await page.setViewportSize({ width: 390, height: 800 })
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0)
      await page.setViewportSize({ width: 1280, height: 800 })
      await row('works').getByRole('button', { name: 'Stop' }).click()
      await row('works').getByText('stopped').waitFor({ timeout: 60_000 })
      await row('breaks').getByRole('button', { name: 'Start' }).click()
      await row('breaks').getByText('failed').waitFor({ timeout: 60_000 })
      await row('breaks').getByRole('button', { name: 'Output' }).click()
      await page.getByLabel('The last lines of breaks').getByText('<b>out of memory</b>').waitFor()
      await page.getByText('it exited with status 3').waitFor()
      await logOut(page)
      await logIn(page, tokens.VIEWER)
      await page.waitForSelector('.live.live')
      await page.goto(`${url}/services`)
      for (const name of ['Start', 'Output']) {
        const button = row('works').getByRole('button', { name })
        assert.equal(await button.isDisabled(), true)
        assert.match(await button.getAttribute('title'), /Your role VIEWER lacks the permission process:manage\./)
      }
    }, ...(await twoProcesses())),
  'what is wrong has a page: by host and cause, with its calls and actions': async (page) => {
    await withBackend(['wrong-model'], async (url) => {
      await call('POST', '/api/config/instance/add/chat', { name: 'wrong-model', baseUrl: url })
      for (let n = 0; n < 4; n++) await call('POST', '/v1/chat/completions', { model: 'wrong-model', messages: [{ role: 'user', content: 'fail:model is loading' }] })
      const host = new URL(url).host
      await page.goto(base)
      await page.locator('.head').getByText(/wrong-model at [\d.:]+ does not answer\. Calls lost: 4\. The backend answered with status 500: model is loading/).first().waitFor()
      await page.locator('.pr', { hasText: host }).getByRole('link').first().click()
      await page.waitForURL(/\/instance\?/)
      await page.locator('.head h2', { hasText: /wrong-model at [\d.:]+ does not answer\. Calls lost: 4\./ }).waitFor()
      await page.locator('.pr[data-state="losing"]', { hasText: /since \d\d:\d\d · Lost 4 · Failed tries 4/ }).waitFor()
      await page.getByRole('button', { name: 'Test', exact: true }).click()
      await page.getByText(/It answered after/).waitFor()
      await page.getByRole('button', { name: 'Disable' }).click()
      await page.locator('dialog').getByRole('button', { name: 'Disable' }).click()
      await page.getByRole('button', { name: 'Enable' }).click()
      await page.getByRole('button', { name: 'Disable' }).waitFor()
      await page.getByRole('link', { name: 'The model wrong-model' }).click()
      await page.waitForURL(/\/model\?/)
      await page.getByText(/model is loading/).first().waitFor()
      await call('DELETE', `/api/config/instance/del/chat?modelName=wrong-model&baseUrl=${encodeURIComponent(url)}`)
    })
  },
  'three planted faults are named by the first screen within 10 s': (page) =>
    withSecurity(
      (url, tokens) =>
        withBackend(['keyed'], (locked) =>
          withBackend(['pair'], (fast) =>
            withBackend(['pair'], async (slow) => {
              const post = (path, token, body) => fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` }, body: JSON.stringify(body) }).then((reply) => reply.text())
              const ask = (model, content, key = 'sk-other') => post('/v1/chat/completions', key, { model, messages: [{ role: 'user', content }] })
              for (const [name, baseUrl] of [['keyed', locked], ['pair', fast], ['pair', slow]]) await post('/api/config/instance/add/chat', tokens.ADMIN, { name, baseUrl })
              await page.goto(url)
              await logIn(page, tokens.VIEWER)
              await page.waitForSelector('.live.live')
              const named = async (words) => {
                const from = Date.now()
                await page.locator('.head, .cols .pr').getByText(words).first().waitFor({ timeout: 10_000 })
                return `${((Date.now() - from) / 1000).toFixed(1)} s`
              }
              await Promise.all(Array.from({ length: 60 }, () => ask('pair', 'hi')))
              const took = [await named(new RegExp(`pair at ${new URL(slow).host} takes .* times as long as at ${new URL(fast).host}`))]
              await Promise.all(Array.from({ length: 30 }, () => ask('pair', 'hi', 'sk-bot')))
              took.push(await named(/Tenant acme is at its limit, which refused 25 of 30 calls in the last 5 minutes\./))
              for (let n = 0; n < 3; n++) await ask('keyed', 'fail:Incorrect API key')
              took.push(await named(new RegExp(`keyed at ${new URL(locked).host} does not answer\\. Calls lost: 3\\. The backend refused the gateway's credentials\\.`)))
              assert.match(await page.locator('.head h2').innerText(), /keyed/)
              await logOut(page)
              return `slow ${took[0]}, flood ${took[1]}, key ${took[2]}`
            }, { delay: 400 }), {}), { status: 401 }),
      '--set', 'security.tenants=[{name: acme, limits: {requests-per-minute: 5}}]',
      '--set', `security.keys=[${['bot', 'other'].map((id) => `{id: ${id}, ${id === 'bot' ? 'tenant: acme, ' : ''}key-sha256: "${createHash('sha256').update(`sk-${id}`).digest('hex')}"}`).join(', ')}]`,
    ),
  'a host has a page: all its models by name, its calls, and all of it taken out and back': (page) =>
    withBackend([], async (url) => {
      const names = ['host-a', 'host-b', 'host-c', 'host-d']
      for (const name of names) await call('POST', '/api/config/instance/add/chat', { name, baseUrl: url })
      for (const name of names) await call('POST', '/v1/chat/completions', { model: name, messages: [{ role: 'user', content: 'fail:out of memory' }] })
      const { host } = new URL(url)
      try {
        await page.goto(base)
        const problem = page.locator('.cols .pr', { hasText: host })
        await problem.waitFor()
        assert.match(await problem.innerText(), /host-a, host-b, host-c, … \(4\) at .*out of memory/s)
        for (const name of names) assert.ok((await problem.innerText()).includes(name), name)
        await problem.locator('.goes').click()
        await page.waitForURL(/\/host\?/)
        await page.locator('.objmeters .meter').first().waitFor()
        await page.locator('.head h2', { hasText: 'out of memory' }).waitFor({ timeout: 10_000 })
        const its = page.url()
        await page.goto(`${base}resilience?show=exceptions`)
        await page.waitForURL('**/services?show=problems')
        for (const name of names) await page.locator(`tr[data-id="chat ${name}@${url}"] + tr`, { hasText: /^Fails since \d\d:\d\d: The backend answered with status 500: out of memory$/ }).waitFor()
        await page.goto(its)
        await page.getByRole('link', { name: 'All its calls' }).click()
        await page.waitForURL(/\/calls\?host=/)
        await page.locator('.crow[data-index="3"]').waitFor()
        assert.equal(await page.locator('.crow[data-index]').count(), names.length)
        await page.goBack()
        await page.getByRole('button', { name: 'Disable 4 instances' }).click()
        assert.match(await page.locator('dialog[open]').innerText(), /host-a.*host-d/s)
        await page.locator('dialog[open]').getByRole('button', { name: 'Disable 4 instances' }).click()
        await page.getByRole('button', { name: 'Enable 4 instances' }).waitFor({ timeout: 10_000 })
        assert.ok((await instances()).filter((one) => names.includes(one.name)).every((one) => one.enabled === false))
        await page.locator('.toast button').click()
        await page.getByRole('button', { name: 'Disable 4 instances' }).waitFor({ timeout: 10_000 })
      } finally {
        for (const name of names) await call('DELETE', `/api/config/instance/del/chat?modelName=${name}&baseUrl=${encodeURIComponent(url)}`)
      }
    }),
  'a call says which model was asked for and which one served; an unknown name leads to where it is made known': async (page) => {
    const services = (await call('GET', '/api/config/type')).body.data
    const given = await call('PUT', '/api/config/type/services/chat', { ...services.chat, aliases: { 'flow-alias': 'demo-chat' } })
    assert.equal(given.status, 200, JSON.stringify(given.body))
    await chat('flow-alias')
    await chat('demo-chut')
    await page.goto(`${base}calls?asked=flow-alias`)
    await page.locator('.crow[data-index="0"] .c-model', { hasText: /flow-alias\s*→\s*demo-chat/ }).waitFor()
    await page.goto(`${base}calls?asked=demo-chut`)
    await page.locator('.crow[data-index="0"]').click()
    await page.getByRole('link', { name: 'The model demo-chat, whose name is nearest' }).waitFor()
    await page.getByRole('link', { name: 'Make demo-chut an alias' }).click()
    await page.waitForURL(/\/services\?policy=chat/)
    await page.locator('.drawer').waitFor()
    assert.equal(await page.getByLabel('Asked for 2').inputValue(), 'demo-chut')
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Model 2')
    await rollBack()
  },
  'a budget that is used up is said for as long as it refuses, in money and by its month': async (page) => {
    await withSecurity(async (url, tokens) => {
      const ask = () => fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer sk-bot' }, body: JSON.stringify({ model: 'demo-chat', max_tokens: 1000, messages: [{ role: 'user', content: 'hi' }] }) })
      const refused = await ask()
      assert.match((await refused.json()).error.message, /The budget of the tenant acme, 0\.50 USD this month, is used up/)
      await page.goto(url)
      await logIn(page, tokens.ADMIN)
      await page.waitForSelector('.live.live')
      for (const [lang, words] of [['en', /Tenant acme is out of its budget, which refused 1 of 1 calls in the last 5 minutes\. Until \d{4}-\d\d-01\./], ['zh', /租户 acme 的预算已用完：最近 5 分钟的 1 次调用中有 1 次被拒绝。直到 \d{4}-\d\d-01。/]]) {
        await page.addInitScript((l) => localStorage.setItem('patchbay.lang', l), lang)
        await page.goto(`${url}/`)
        await page.locator('.head', { hasText: words }).waitFor()
      }
      await page.goto(`${url}/calls?show=refused`)
      await page.locator('.crow[data-index="0"]').click()
      await page.locator('.drawer', { hasText: '租户 acme 的预算（本月 0.50 USD）已用完' }).waitFor()
    }, '--set', 'prices.models=[{model: "*", input: 300, output: 900}]', '--set', 'quota.enabled=true', '--set', 'security.tenants=[{name: acme, budgets: {month: {cost: 0.5}}}]', '--set', `security.keys=[{id: bot, tenant: acme, key-sha256: "${createHash('sha256').update('sk-bot').digest('hex')}"}]`)
  },
  '10,000 calls scroll': async (page) => {
    const many = Array.from({ length: 10_000 }, (_, i) => ({
      requestId: `req_${String(i).padStart(6, '0')}`, time: new Date(Date.now() - i * 20).toISOString(), service: 'chat', door: 'chat', model: `model-${i % 30}`, instance: `model-${i % 30}@http://127.0.0.1:9`,
      status: i % 9 === 0 ? 'error' : 'success', httpStatus: i % 9 === 0 ? 502 : 200, errorCode: i % 9 === 0 ? 'upstream_error' : undefined, outcome: i % 9 === 0 ? 'lost' : 'answered', streamed: true, durationMs: (i * 7) % 3000, attempts: 1,
      tries: [{ instance: `model-${i % 30}@http://127.0.0.1:9`, pickMs: 0.1, endMs: 10 }],
    }))
    await page.route('**/api/monitoring/calls?**', (route) => route.fulfill({ json: { calls: route.request().url().includes('after=') ? [] : many, capacity: 10_000, samplingRate: 1 } }))
    await page.route('**/api/monitoring/calls/req_*', (route) => route.fulfill({ json: { ...many[0], requestId: route.request().url().split('/').at(-1).split('?')[0], timeline: { receivedMs: 0, endMs: 10, queuedMs: 0, upstreamMs: 9, gatewayMs: 1 } } }))
    await page.goto(`${base}calls`)
    await page.waitForSelector('.cbody .crow')
    const spent = await threadTime(page)
    const before = await spent()
    const frames = await page.evaluate(async () => {
      const box = document.querySelector('.cbody')
      const times = []
      let last = performance.now()
      for (let i = 0; i < 120; i++) {
        box.scrollTop += 320
        await new Promise(requestAnimationFrame)
        const now = performance.now()
        times.push(now - last)
        last = now
      }
      return times.sort((a, b) => a - b)
    })
    const scrolled = await spent()
    assert.ok((await page.locator('.crow').count()) < 80)
    await page.locator('.cbody .crow').nth(5).click()
    await page.waitForSelector('.drawer')
    const opened = await spent()
    return `${((scrolled - before) / 120).toFixed(1)} ms of the main thread for a frame of 10 new rows (median ${frames[60].toFixed(0)} ms on the clock); a row opens in ${opened - scrolled} ms`
  },
  'a 10,000-token answer': async (page) => {
    const event = (delta) => `data: ${JSON.stringify({ choices: [{ delta: { content: delta } }] })}\n\n`
    const body = Array.from({ length: 10_000 }, (_, i) => event(`word${i} `)).join('') + 'data: [DONE]\n\n'
    await page.route('**/v1/chat/completions', (route) => route.fulfill({ status: 200, contentType: 'text/event-stream', body }))
    await page.goto(`${base}playground`)
    await page.waitForSelector('.live.live')
    await page.fill('.ta', 'long')
    const began = Date.now()
    await page.keyboard.press('Control+Enter')
    await page.waitForFunction(() => document.querySelector('.conv')?.textContent?.includes('word9999'), undefined, { timeout: 10_000 })
    return `shown in ${Date.now() - began} ms`
  },
  ...tasks({ base, call, chat, instances, countClicks, twoProcesses, withBackend, withSettings, within }),
  ...restarts({ dir, freePort, kill, ready, withBackend }),
  'killed: stale within 3 s, back without a reload': async (page) => {
    await page.goto(base)
    await page.waitForSelector('.live.live')
    await page.evaluate(() => {
      window.mark = 1
    })
    await stopGateway()
    const stale = await within(4500, page, () => document.querySelector('.live.stale') !== null)
    await within(2000, page, () => document.querySelector('.head [data-stale] h2')?.textContent?.startsWith('No news from the gateway for '))
    await startGateway()
    const back = await within(8000, page, () => document.querySelector('.live.live') !== null)
    await within(2000, page, () => document.querySelector('.head [data-stale]') === null)
    assert.equal(await page.evaluate(() => window.mark), 1)
    return `stale after ${stale} ms, live ${back} ms after the restart`
  },
}

const wanted = new RegExp(process.argv[2] ?? '')
let failed = 0
for (const [name, flow] of Object.entries(flows)) {
  if (!wanted.test(name)) continue
  const page = await browser.newPage()
  page.on('pageerror', (error) => console.log(`  page error: ${error.message}`))
  try {
    console.log(`ok   ${name}${((said) => (said === undefined ? '' : `: ${said}`))(await flow(page))}`)
  } catch (error) {
    failed++
    console.log(`FAIL ${name}: ${String(error.message).split('\n').slice(0, 6).join('\n     ')}`)
    await rollBack().catch(() => undefined) // the next flow finds what it would without this one
    await page.screenshot({ path: join('screenshots', `failed-${failed}.png`) }).catch(() => undefined)
  }
  await page.close()
}
await browser.close()
await stopGateway()
await rm(dir, { recursive: true, force: true })
process.exitCode = failed === 0 ? 0 : 1
