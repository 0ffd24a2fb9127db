// What people come for, from the overview, with a bound on the clicks that each takes:
// tasks of flows.mjs, which has the gateways. To add and to remove a backend is there.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'

const link = (page, name) => page.locator('.nav a', { hasText: name })

/** The tasks by their names, for the helpers of flows.mjs. */
export const tasks = ({ base, call, chat, instances, countClicks, withSettings, within }) => {
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
    'task: the slowest host': task(3, async (page) => {
      await chat('demo-slow')
      await link(page, 'Services').click()
      await page.getByLabel('Group by').selectOption('host')
      await page.locator('.sortb', { hasText: 'p95' }).click()
      await page.locator('.grouphead a').first().click()
      await page.waitForURL(/\/host\?/)
      await page.locator('.head h2').waitFor()
      assert.match(await page.title(), /^127\.0\.0\.1:\d+ · Host · Patchbay$/)
    }),
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
