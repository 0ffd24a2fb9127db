// The page of the API, opened and used in a real browser; and the client that a
// page of another origin would use, in that browser.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { start } from './gateway.js';

const bounded = { timeout: 60_000 };
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const inBrowser = { ...bounded, skip: executablePath ? false : 'no Chromium is installed' };

let gateway, browser, page;
const complaints = [];

before(async () => {
  if (!executablePath) return;
  gateway = await start();
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  page = await browser.newPage({ locale: 'en-US' });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(gateway.base.replace(/\/v1$/, '/docs/api'));
}, bounded);

after(async () => {
  await browser?.close();
  await gateway?.stop();
}, bounded);

test('the page lists every operation', inBrowser, async () => {
  const document = await (await fetch(gateway.base.replace(/\/v1$/, '/openapi.json'))).json();
  const operations = Object.values(document.paths).flatMap((item) => Object.keys(item)).length;
  await page.locator('details').first().waitFor();
  assert.equal(await page.locator('details').count(), operations);
  assert.match(await page.locator('details').first().textContent(), /POST.*\/v1\//, 'the unified API comes first');
  assert.ok(operations > 70, `${operations} operations`);
});

test('an operation is found, filled in and sent', inBrowser, async () => {
  await page.fill('#find', '/v1/chat/completions');
  const entry = page.locator('details').first();
  await entry.locator('summary').click();
  await entry.locator('textarea').fill(JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'hello' }] }));
  await entry.getByRole('button', { name: 'Send' }).click();
  const output = entry.locator('pre');
  await output.filter({ hasText: '200' }).waitFor();
  assert.match(await output.textContent(), /"object": "chat.completion"/);
});

test('the example of an operation works as it stands', inBrowser, async () => {
  await page.fill('#find', 'post /v1/embeddings');
  const entry = page.locator('details').first();
  await entry.locator('summary').click();
  await entry.locator('textarea').filter({ hasText: 'demo-embedding' }).waitFor();
  await entry.getByRole('button', { name: 'Send' }).click();
  await entry.locator('pre').filter({ hasText: '200' }).waitFor();
});

test('a refused operation shows why', inBrowser, async () => {
  await page.fill('#find', 'delete /api/config/type/services');
  const entry = page.locator('details').first();
  await entry.locator('summary').click();
  await entry.locator('input').first().fill('nonsense');
  await entry.getByRole('button', { name: 'Send' }).click();
  const output = entry.locator('pre');
  await output.filter({ hasText: '40' }).waitFor();
  assert.match(await output.textContent(), /"success": false/);
});

test('what is not there is said not to be there', inBrowser, async () => {
  await page.fill('#find', 'no such thing');
  // The list is drawn anew after the key was handled.
  await page.waitForFunction(() => document.querySelector('#operations').textContent === 'Nothing found.');
});

test('the page has no faults of its own', inBrowser, () => {
  // A refused call is an error to the browser's console, and was made on purpose.
  assert.deepEqual(complaints.filter((text) => !text.includes('the server responded with a status of 40')), []);
});

test('a page of another origin streams a chat, and may not write', inBrowser, async () => {
  const elsewhere = http.createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>elsewhere</title>')).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  try {
    const other = await browser.newPage();
    await other.goto(`http://127.0.0.1:${elsewhere.address().port}/`);
    const seen = await other.evaluate(async (base) => {
      const headers = { 'Content-Type': 'application/json', Authorization: 'Bearer any', 'x-stainless-lang': 'js' };
      const body = JSON.stringify({ model: 'demo-chat', stream: true, messages: [{ role: 'user', content: 'hello' }] });
      const response = await fetch(`${base}/chat/completions`, { method: 'POST', headers, body });
      const text = await response.text();
      const write = await fetch(base.replace(/v1$/, 'api/config/type/reset'), { method: 'POST' }).then((r) => r.status, () => 'blocked');
      return { status: response.status, id: response.headers.get('x-request-id'), text, write };
    }, gateway.base);
    assert.equal(seen.status, 200);
    assert.ok(seen.id, 'the request id is exposed');
    assert.match(seen.text, /data: \[DONE\]/);
    assert.ok(seen.write === 403 || seen.write === 'blocked', `a cross-site write: ${seen.write}`);
  } finally {
    elsewhere.close();
  }
});
