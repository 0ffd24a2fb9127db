// What people come for, from the overview, with a bound on the clicks that each takes:
// tasks of flows.mjs, which has the gateways. To add and to remove a backend is there.
import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { fileOf } from './gateway.mjs'

const link = (page, name) => page.locator('.nav a', { hasText: name })

/** The tasks by their names, for the helpers of flows.mjs. */
export const tasks = ({ base, call, chat, instances, countClicks, twoProcesses, withBackend, withSettings, within }) => {
  /** Does a task from the overview of a gateway, with at most so many clicks. */
  const task = (most, act, url = base) => async (page) => {
    const clicks = await countClicks(page)
    await page.goto(url)
    await page.waitForSelector('.live.live')
    clicks(true)
    await act(page, url)
    const count = clicks()
    assert.ok(count <= most, `${count} clicks, ${most} are allowed`)
    return `${count} of ${most} clicks`
  }
  const ask = (url, body, headers = {}) => fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }], ...body }) }).then((reply) => reply.text())
  return {
    'task: why a call failed, by its id': task(0, async (page) => {
      const id = (await chat('demo-down')).headers.get('x-request-id')
      await page.keyboard.press('Control+k')
      await page.keyboard.type(id)
      await page.getByRole('option', { name: `Open the call ${id}` }).waitFor()
      await page.keyboard.press('Enter')
      await page.locator('.drawer', { hasText: 'The connection to the backend broke' }).waitFor()
      assert.match(await page.title(), new RegExp(`^${id} · Calls · Patchbay$`))
    }),
    'task: what a tenant spent this week, by model, as a file': (page) =>
      withSettings(['quota.enabled=true', 'prices.models=[{model: "*", input: 300, output: 900}]'], async (url) => {
        for (let i = 0; i < 3; i++) await ask(url, { user: 'ann' }, { 'x-tenant-id': 'acme' })
        await ask(url, {}, { 'x-tenant-id': 'initech' })
        return task(4, async () => {
          await link(page, 'Spend').click()
          await page.getByText('A forecast follows when a day is counted.').waitFor()
          await page.getByRole('button', { name: 'Week' }).click()
          await page.locator('.spt').getByRole('button', { name: 'acme', exact: true }).click()
          await page.locator('.spt .c-name', { hasText: 'demo-chat' }).waitFor()
          const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download CSV' }).click()])
          assert.match(file.suggestedFilename(), /^spend-of-acme-by-model-/)
          assert.match(await readFile(await file.path(), 'utf8'), /demo-chat/)
          assert.equal(await page.locator('.spendpick', { hasText: 'UTC' }).count(), 1)
        }, url)(page)
      }),
    'task: the dearest run is seen, and goes on after a raise': async (page) =>
      withSettings(['prices.models=[{model: "*", input: 300, output: 900}]'], async (url) => {
        const turn = (run) => fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-router-run': run }, body: JSON.stringify({ model: 'demo-chat', max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] }) })
        assert.equal((await turn('small')).status, 200)
        let last = await turn('nightly')
        for (let i = 0; i < 100 && last.status === 200; i++) last = await turn('nightly')
        assert.equal((await last.json()).error.code, 'run_limit_reached')
        return task(4, async () => {
          await link(page, 'Calls').click()
          await link(page, 'Runs').click()
          const dearest = page.getByRole('table', { name: 'The dearest of the week' }).locator('tbody tr').first()
          await dearest.getByText('nightly').waitFor()
          await dearest.getByText('stopped').waitFor()
          await dearest.getByRole('button').click()
          await page.getByText(/This run has used/).waitFor()
          await page.locator('.runline .tr').first().waitFor()
          await page.getByRole('button', { name: '+0.50 USD' }).click()
          await page.locator('.toast', { hasText: 'nightly may use more' }).waitFor()
          assert.equal((await turn('nightly')).status, 200)
        }, url)(page)
      }, '--config', await fileOf('runs: { enabled: true, limits: { cost: 0.5 } }')),
    'task: an instance goes out and comes back': task(3, async (page) => {
      await link(page, 'Services').click()
      const row = page.locator('.svc tbody tr', { hasText: 'demo-slow' }).first()
      await row.getByRole('switch').click()
      await within(5000, page, () => document.querySelector('.svc tbody [role=switch][aria-checked=false]') !== null)
      await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
      await within(5000, page, () => document.querySelector('.svc tbody [role=switch][aria-checked=false]') === null)
      assert.ok((await instances()).every((one) => one.enabled !== false))
    }),
    'task: a key for one model and 5 a month': task(5, async (page) => {
      await link(page, 'Keys').click()
      await page.locator('main .btn.pri').first().click()
      await page.getByLabel('Models', { exact: false }).first().fill('demo-chat')
      await page.getByLabel('month, cost').fill('5')
      const button = page.getByRole('button', { name: 'Create the key' })
      const box = await button.boundingBox()
      assert.ok(box.y + box.height <= page.viewportSize().height, `the button ends at ${box.y + box.height}`)
      await button.click()
      await page.locator('dialog pre').first().waitFor()
      const made = (await call('GET', '/api/auth/keys')).body.data.find((key) => key.models?.join() === 'demo-chat')
      assert.equal(Number(made.budgets.month.cost), 5)
      await call('DELETE', `/api/auth/keys/${made.id}`)
    }),
    'task: the slowest host, and why': (page) =>
      withBackend(['pair'], (fast) =>
        withBackend(['pair'], (slow) =>
          withSettings([], async (url) => {
            for (const baseUrl of [fast, slow]) await fetch(`${url}/api/config/instance/add/chat`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ name: 'pair', baseUrl }) })
            for (let wave = 0; wave < 3; wave++) await Promise.all(Array.from({ length: 20 }, () => ask(url, { model: 'pair' })))
            return task(2, async () => { // a third one is that in the list of groupings, which is the browser's own
              const { host } = new URL(slow)
              await link(page, 'Services').click()
              await page.getByLabel('Group by').selectOption('host')
              const first = page.locator('.grouphead').first()
              await first.getByText(/^chat p95 [1-9][\d.]* s$/i).waitFor()
              assert.ok((await first.innerText()).replaceAll('\n', '').startsWith(host))
              await first.locator('a').click()
              await page.waitForURL(/\/host\?/)
              const reason = page.getByRole('region', { name: 'How fast' }).locator('.warn')
              await reason.waitFor()
              assert.match(await reason.innerText(), new RegExp(`^pair at ${host} takes .* for a call, [\\d.]+ times as long as at ${new URL(fast).host} .*(calls at a time|look at the host)`))
              assert.equal(await page.title(), `${host} · Host · Patchbay`)
            }, url)(page)
          }), { delay: 1500 })),
    'task: a model that sleeps is woken, and put to sleep': (page) =>
      withSettings([], (url) =>
        task(3, async () => {
          const row = page.locator('.hands tbody tr', { hasText: 'demo-night' })
          await link(page, 'Services').click()
          await row.getByRole('button', { name: 'Load' }).click()
          await row.getByText('loaded', { exact: true }).waitFor({ timeout: 20_000 })
          await row.getByRole('button', { name: 'Sleep' }).click()
          await row.getByRole('button', { name: 'Load' }).waitFor({ timeout: 20_000 })
        }, url)(page)),
    'task: a process is started, read and stopped': async (page) =>
      withSettings([], (url) =>
        task(4, async () => {
          const row = page.locator('.hands tbody tr', { has: page.getByRole('button', { name: 'Output' }) }).filter({ hasText: 'works' })
          await link(page, 'Services').click()
          await row.getByRole('button', { name: 'Start' }).click()
          await row.getByText('ready').waitFor({ timeout: 60_000 })
          await row.getByRole('button', { name: 'Output' }).click()
          await page.getByLabel('The last lines of works').getByText('weights are read').waitFor()
          await row.getByRole('button', { name: 'Stop' }).click()
          await row.getByText('stopped').waitFor({ timeout: 60_000 })
        }, url)(page), ...(await twoProcesses())),
    'task: a batch is started with a file, and its results are downloaded': task(4, async (page) => {
      const lines = Array.from({ length: 3 }, (_, n) => JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body: { model: 'demo-chat', messages: [{ role: 'user', content: 'hi' }] } }))
      await link(page, 'Batches').click()
      const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('button', { hasText: 'Choose a file' }).click()])
      await chooser.setFiles({ name: 'requests.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(lines.join('\n')) })
      await page.getByRole('button', { name: 'Start the batch' }).click()
      const drawer = page.locator('.drawer')
      await drawer.locator('.tag', { hasText: 'completed' }).waitFor({ timeout: 60_000 })
      const [file] = await Promise.all([page.waitForEvent('download'), drawer.getByRole('link', { name: 'Results' }).click()])
      const results = await readFile(await file.path(), 'utf8')
      assert.ok(['line-0', 'line-1', 'line-2'].every((id) => results.includes(id)), results)
    }),
    'task: the calls of a user above 5 s, with what was said and where the time went': (page) =>
      withBackend(['late'], (late) =>
        withSettings(['monitoring.capture=content'], async (url) => {
          await fetch(`${url}/api/config/instance/add/chat`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ name: 'late', baseUrl: late }) })
          const said = (user, content, model) => ask(url, { model, user, messages: [{ role: 'user', content }] })
          await Promise.all([said('alice@acme', 'the slow question', 'late'), said('alice@acme', 'a quick question', 'demo-chat'), said('bob@acme', 'another slow question', 'late')])
          return task(3, async () => {
            await link(page, 'Calls').click()
            await page.getByRole('button', { name: 'Filters' }).click()
            await page.getByLabel('User').fill('alice')
            await page.getByLabel('At least, ms').fill('5000')
            await page.locator('[data-part=matches]', { hasText: /^1 of 3 call matches\./ }).waitFor()
            await page.locator('.cbody .crow').first().click()
            const drawer = page.locator('.drawer')
            await drawer.getByLabel('Request', { exact: true }).getByText('the slow question').waitFor()
            assert.match(await drawer.innerText(), /5\.\d+ s/)
            assert.match(await drawer.locator('.tlbox').innerText(), /5\.\d+ s/)
          }, url)(page)
        }), { delay: 5200 }),
    'task: roll back, and see what changes': async (page) => {
      const [one] = await instances()
      await call('PUT', '/api/config/instance/update/chat', { instanceId: `${one.name}@${one.baseUrl}`, instance: { weight: 7 } })
      return task(4, async () => {
        await link(page, 'Versions').click()
        await page.locator('button.v').last().click()
        await page.locator('.vg footer .btn.pri').click()
        await page.getByRole('button', { name: /^Confirm: roll back/ }).click()
        await page.locator('.toast').waitFor()
        assert.equal((await instances())[0].weight, 1)
      })(page)
    },
    'task: the calls of a user, by a part of the name': async (page) => {
      for (const user of ['alice@acme', 'alice@acme', 'bob@acme']) await ask(base.slice(0, -1), { user })
      return task(3, async () => {
        await link(page, 'Calls').click()
        await page.getByRole('button', { name: 'Filters' }).click()
        await page.getByLabel('User').fill('ALICE')
        await page.locator('[data-part=matches]', { hasText: /^2 of \d[\d,]* calls match\./ }).waitFor()
        assert.ok((await page.locator('datalist option[value="alice@acme"]').count()) > 0)
        assert.match(await page.locator('[data-part=matches]').innerText(), /a restart forgets them/)
        await page.locator('.cbody .crow').first().click()
        await page.locator('.drawer').waitFor()
      })(page)
    },
    'task: a host is disabled and enabled from the search, on a telephone too': async (page) => {
      const { host } = new URL((await instances())[0].baseUrl)
      await page.setViewportSize({ width: 390, height: 844 })
      return task(4, async () => {
        await page.locator('.top .search').click()
        await page.keyboard.type(`disable ${host}`)
        await page.getByRole('option', { name: /^Disable all \d+ instances at / }).click()
        await page.locator('dialog[open] .btn.danger').click()
        await within(20_000, page, () => document.querySelector('dialog[open]') === null)
        assert.ok((await instances()).some((one) => one.enabled === false))
        await page.locator('.toast button').click()
        await page.getByRole('button', { name: /^Disable \d+ instances$/ }).waitFor({ timeout: 20_000 })
        assert.ok((await instances()).every((one) => one.enabled !== false))
      })(page)
    },
    'calls: arrows, j, k, Home, End and Enter walk the list': async (page) => {
      for (let i = 0; i < 5; i++) await chat('demo-chat')
      await page.goto(`${base}calls?q=demo-chat`)
      await page.locator('.crow[data-index="4"]').waitFor()
      await page.getByRole('button', { name: 'Pause' }).click()
      await page.locator('.cbody').focus()
      const at = () => page.evaluate(() => document.activeElement.getAttribute('data-index'))
      for (const [key, want] of [['ArrowDown', '0'], ['ArrowDown', '1'], ['j', '2'], ['k', '1'], ['ArrowUp', '0'], ['ArrowUp', '0']]) {
        await page.keyboard.press(key)
        await page.waitForFunction((index) => document.activeElement.getAttribute('data-index') === index, want)
      }
      await page.keyboard.press('End')
      await page.waitForFunction(() => Number(document.activeElement.getAttribute('data-index')) >= 4)
      await page.keyboard.press('Home')
      await page.waitForFunction(() => document.activeElement.getAttribute('data-index') === '0')
      assert.equal(await at(), '0')
      await page.keyboard.press('Enter')
      await page.locator('.drawer').waitFor()
    },
  }
}
