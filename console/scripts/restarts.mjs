// What the pages say after a gateway was started anew, of what it knows no more and of
// what it has kept: flows of flows.mjs, which has the helpers.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'

/** The flows by their names. */
export const restarts = ({ dir, freePort, kill, ready, withBackend }) => ({
  'a restart: the ledger goes on, and keys and charts say since when they know': (page) =>
    withBackend(['m'], async (backend) => {
      const url = `http://127.0.0.1:${await freePort()}`
      const token = randomBytes(24).toString('hex')
      const settings = [
        'security.enabled=true',
        `security.tokens=[{name: ann, role: ADMIN, token-sha256: "${createHash('sha256').update(token).digest('hex')}"}]`,
        'quota.enabled=true',
        `services.chat.instances=[{name: m, base-url: "${backend}"}]`,
      ]
      const start = async () => {
        const gateway = spawn(process.env.PATCHBAY_BIN ?? '../bin/patchbay', ['serve', '--config', '/dev/null', '--listen', new URL(url).host, '--data-dir', join(dir, 'restarts'), ...settings.flatMap((setting) => ['--set', setting])], { stdio: 'ignore' })
        await ready(url)
        return gateway
      }
      const manage = async (method, path, body) => (await fetch(url + path, { method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body) })).json()
      let gateway = await start()
      try {
        const { key } = (await manage('POST', '/api/auth/keys', { id: 'team-a', tenant: 'acme' })).data
        for (let n = 0; n < 2; n++) {
          const reply = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }) })
          assert.equal(reply.status, 200, await reply.text())
        }
        const { data: [before] } = await manage('GET', '/api/auth/keys')
        assert.equal(before.callsToday, 2)
        await kill(gateway)
        gateway = await start()
        const { data: [after] } = await manage('GET', '/api/auth/keys')
        assert.deepEqual([after.callsToday, after.lastUsedAt], [0, undefined])
        await page.setExtraHTTPHeaders({ authorization: `Bearer ${token}` })
        await page.goto(`${url}/keys`)
        const used = page.locator('.kt tbody tr', { hasText: 'team-a' }).locator('.kused [title]')
        await used.getByText('this month', { exact: true }).waitFor()
        assert.match(await used.getAttribute('title'), /^2 requests this month, before the gateway started \(\d/)
        await page.goto(`${url}/spend?view=ledger`)
        await page.getByText('the ledger of this gateway; a restart keeps it').waitFor()
        for (const path of ['/', '/tenant?id=acme']) {
          await page.goto(url + path)
          await page.locator('[data-part=since-start]', { hasText: 'The history begins at ' }).waitFor()
        }
        await page.locator('.head h2', { hasText: 'acme has made 2 requests this month.' }).waitFor()
        await page.locator('main', { hasText: 'team-a' }).waitFor()
        assert.equal(await page.getByText('0 calls today').count(), 0)
        await page.goto(`${url}/calls`)
        await page.getByRole('link', { name: 'Keep them in a file' }).click()
        await page.waitForFunction(() => {
          const at = document.getElementById('calls-file')?.getBoundingClientRect()
          return at !== undefined && at.top >= 0 && at.bottom <= window.innerHeight
        })
      } finally {
        await kill(gateway)
      }
    }),
})
