// People sign in with a real provider (oidc-provider) in a real browser, and are signed out there.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { freePort, serve } from './gateway.js';
import { newProvider, settings } from './provider.js';

const bounded = { timeout: 120_000 };
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const inBrowser = { ...bounded, skip: executablePath ? false : 'no Chromium is installed' };

const complaints = [];
let gateway, browser, dir, issuer, base, server, answer;

before(async () => {
  if (!executablePath) return;
  dir = mkdtempSync(join(tmpdir(), 'patchbay-signin-'));
  base = `http://127.0.0.1:${await freePort()}`;
  server = http.createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  issuer = `http://127.0.0.1:${server.address().port}`;
  answer = newProvider(issuer, base, { complain: (why) => complaints.push(why) }).callback();
  const hash = createHash('sha256').update('admin-token').digest('hex');
  const file = join(dir, 'patchbay.yaml');
  writeFileSync(file, settings(base, issuer, dir, hash));
  gateway = await serve(base, file);
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}, bounded);

after(async () => {
  await browser?.close();
  await gateway?.stop();
  server?.closeAllConnections();
  server?.close();
  if (dir) rmSync(dir, { recursive: true, force: true });
}, bounded);

// signIn opens the console as somebody and goes through the provider.
async function signIn(login) {
  const page = await (await browser.newContext({ locale: 'en-US' })).newPage();
  page.setDefaultTimeout(20_000);
  await page.goto(`${base}/keys?tab=roles`);
  await page.getByRole('link', { name: 'Sign in with corp' }).click();
  await page.fill('input[name=login]', login);
  await page.fill('input[name=password]', 'any');
  await page.click('button[type=submit]');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(`${base}/**`);
  return page;
}

const me = (page) => page.evaluate(async () => {
  const reply = await fetch('/api/auth/me');
  return { status: reply.status, ...(await reply.json()).data };
});

test('a person signs in and is who the rules say', inBrowser, async () => {
  const page = await signIn('ada');
  assert.equal(page.url(), `${base}/keys?tab=roles`);
  const who = await me(page);
  assert.deepEqual([who.status, who.name, who.role, who.subject, who.issuer, who.provider], [200, 'ada of the tests', 'OPERATOR', 'ada', issuer, 'corp']);
  assert.deepEqual(who.memberships, [{ tenant: 'red', role: 'MEMBER' }]);
});

test('nobody gets in without a rule', inBrowser, async () => {
  const page = await signIn('eve');
  assert.match(await page.textContent('body'), /no rule of this gateway gives you access/);
  await page.getByRole('link', { name: 'Back to the sign-in page' }).click();
  assert.equal((await me(page)).status, 401);
});

test('who is signed out at the provider is out here within 5 s', inBrowser, async () => {
  const page = await signIn('ada');
  const other = await signIn('ada');
  const there = await page.context().newPage();
  await there.goto(`${issuer}/session/end`);
  const began = Date.now();
  await there.locator('button[name=logout], button[value=yes], button[autofocus]').first().click();
  while ((await me(page)).status !== 401) {
    assert.ok(Date.now() - began < 20_000, `the session does not end: ${complaints}`);
    await delay(50); // between two looks, not instead of them
  }
  const took = Date.now() - began;
  assert.ok(took < 5_000, `that took ${took} ms`);
  assert.equal((await me(other)).status, 200, 'another browser of the same person stays');
});

test('signing out in the console ends the session, also for a copy of the cookie', inBrowser, async () => {
  const page = await signIn('ada');
  const cookies = await page.context().cookies(base);
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
  const ask = async () => (await fetch(`${base}/api/auth/me`, { headers: { cookie } })).status;
  assert.equal(await ask(), 200);
  const left = await page.evaluate(async () => (await fetch('/auth/logout', { method: 'POST' })).json());
  assert.ok(left.data.providerLogout.startsWith(`${issuer}/session/end?client_id=patchbay`));
  assert.equal(await ask(), 401);
});

test('a provider that replaces its keys is understood', inBrowser, async () => {
  answer = newProvider(issuer, base, { complain: (why) => complaints.push(why) }).callback();
  assert.equal((await me(await signIn('ada'))).status, 200);
});
