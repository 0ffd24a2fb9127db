// People sign in with a real provider (oidc-provider) in a real browser and use the pages that are
// theirs: a member makes a key and reaches its budget, a team admin manages the tenant, an
// administrator reads the audit and ends a session.
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Provider from 'oidc-provider';
import { chromium } from 'playwright-core';
import { serve } from './gateway.js';

const bounded = { timeout: 180_000 };
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const inBrowser = { ...bounded, skip: executablePath ? false : 'no Chromium is installed' };
const groups = { mia: ['staff'], tom: ['leads'], ada: ['admins'], eve: ['visitors'] };

const complaints = [];
let gateway, browser, dir, issuer, base, provider, backend;

const listen = async (answer) => {
  const server = http.createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${server.address().port}` };
};

const freePort = async () => {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
};

function newProvider() {
  const jwk = { ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' };
  const made = new Provider(issuer, {
    clients: [
      {
        client_id: 'patchbay',
        client_secret: 'secret-of-the-client',
        redirect_uris: [`${base}/auth/callback`],
        post_logout_redirect_uris: [`${base}/`],
        backchannel_logout_uri: `${base}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
      },
    ],
    jwks: { keys: [jwk] },
    cookies: { keys: ['a key of the tests'] },
    claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
    features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
    // Without its own dispatcher, which refuses addresses of this machine.
    fetch: (address, { dispatcher, ...options }) => fetch(address, options),
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: `${id} of the tests`, groups: groups[id] }) }),
  });
  made.on('backchannel.error', (_, error) => complaints.push(String(error)));
  return made.callback();
}

// answerChat is a backend that has one model and answers every chat with one word.
function answerChat(request, response) {
  const send = (value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  if (request.method === 'GET') return send({ object: 'list', data: [{ id: 'small-1', object: 'model', owned_by: 'tests' }] });
  request.resume().on('end', () =>
    send({
      id: 'chat-1',
      object: 'chat.completion',
      created: 1,
      model: 'small-1',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    }),
  );
}

before(async () => {
  if (!executablePath) return;
  dir = mkdtempSync(join(tmpdir(), 'patchbay-people-'));
  base = `http://127.0.0.1:${await freePort()}`;
  let answer;
  provider = await listen((request, response) => answer(request, response));
  issuer = provider.url;
  answer = newProvider();
  backend = await listen(answerChat);
  const hash = createHash('sha256').update('admin-token').digest('hex');
  const file = join(dir, 'patchbay.yaml');
  writeFileSync(
    file,
    `server: {listen: '${new URL(base).host}', data-dir: '${dir}/data', public-url: '${base}'}
services: {chat: {instances: [{name: small-1, base-url: '${backend.url}'}]}}
quota: {enabled: true}
prices: {currency: USD, models: [{model: '*', input: 100, output: 1000}]}
security:
  enabled: true
  tokens: [{name: a, role: ADMIN, token-sha256: ${hash}}]
  tenants: [{name: red, budgets: {month: {requests: 1000}}}]
  self-service: {terms: {budgets: {day: {requests: 3}}}}
  oidc:
    - name: corp
      issuer: '${issuer}'
      client-id: patchbay
      client-secret: secret-of-the-client
      scopes: [profile, groups]
      rules:
        - {claim: groups, value: admins, role: ADMIN}
        - {claim: groups, value: staff, role: MEMBER, tenant: red}
        - {claim: groups, value: leads, role: TEAM_ADMIN, tenant: red}
`,
  );
  gateway = await serve(base, file);
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}, bounded);

after(async () => {
  await browser?.close();
  await gateway?.stop();
  for (const made of [provider, backend]) {
    made?.server.closeAllConnections();
    made?.server.close();
  }
  if (dir) rmSync(dir, { recursive: true, force: true });
}, bounded);

// signIn opens the console as somebody and goes through the provider.
async function signIn(login, { locale = 'en-US', button = 'Sign in with corp' } = {}) {
  const page = await (await browser.newContext({ locale, acceptDownloads: true })).newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(base);
  await page.getByRole('link', { name: button }).click();
  await page.fill('input[name=login]', login);
  await page.fill('input[name=password]', 'any');
  await page.click('button[type=submit]');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.waitForURL(`${base}/**`);
  return page;
}

const entries = (page) => page.locator('nav.side .nav a').allTextContents();

// makeKey makes a key on a page that has the button, and returns its text.
async function makeKey(page, name) {
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByRole('textbox', { name: /^Name/ }).fill(name);
  await page.getByRole('button', { name: 'Create the key' }).click();
  const key = await page.locator('dialog[open] .code').first().textContent();
  assert.match(key, /^pb-/);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await page.getByRole('button', { name: `More actions: ${name}` }).waitFor();
  return key;
}

const call = (key) =>
  fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'small-1', messages: [{ role: 'user', content: 'Hello' }] }),
  });

test('a member makes a key, reaches its budget, sees why, and is out when signed out at the provider', inBrowser, async () => {
  const page = await signIn('mia');
  await page.getByRole('heading', { name: 'My keys', level: 1 }).waitFor();
  assert.deepEqual(await entries(page), ['My keys']);
  const key = await makeKey(page, 'laptop');
  for (let i = 0; i < 3; i++) assert.equal((await call(key)).status, 200);
  const refused = await call(key);
  assert.equal(refused.status, 429);
  const why = (await refused.json()).error.message;
  // The page tells it by itself, in the words of the gateway, with the name of the key.
  await page.getByRole('status').filter({ hasText: /budget/ }).waitFor();
  const told = await page.getByRole('region', { name: 'What was refused, and why' }).getByRole('row').nth(1).textContent();
  assert.ok(told.includes('laptop') && told.includes('small-1'), told);
  assert.match(why, /budget/);
  const usage = page.getByRole('region', { name: 'What I used this month' });
  await usage.getByText('3 of 3 requests').waitFor();
  await usage.getByText('0.0039 USD').first().waitFor();
  for (const tool of ['Claude Code', 'Codex', 'Cursor', 'Continue', 'Python', 'curl']) {
    await page.getByRole('button', { name: tool, exact: true }).click();
    const text = await page.getByRole('region', { name: 'Connect my tool' }).locator('.code').textContent();
    assert.ok(text.includes(base) && text.includes('small-1') && !text.includes(key), `${tool}: ${text}`);
  }
  // Pages that are not theirs lead back to their own.
  await page.goto(`${base}/settings`);
  await page.waitForURL(`${base}/me`);

  const there = await page.context().newPage();
  await there.goto(`${issuer}/session/end`);
  await page.bringToFront();
  const began = Date.now();
  await there.locator('button[name=logout], button[value=yes], button[autofocus]').first().click();
  await page.getByRole('link', { name: 'Sign in with corp' }).waitFor();
  const took = Date.now() - began;
  assert.ok(took < 5_000, `the page was open for ${took} ms more: ${complaints}`);
  assert.equal(await page.evaluate(async () => (await fetch('/api/me')).status), 401);
});

test('a team admin manages the keys, members and budgets of the tenant, and sees its calls and audit', inBrowser, async () => {
  const page = await signIn('tom');
  await page.getByRole('link', { name: 'Team' }).click();
  assert.deepEqual(await entries(page), ['My keys', 'Team']);
  const key = await makeKey(page, 'pipeline');
  assert.equal((await call(key)).status, 200);

  await page.locator('button.nmad', { hasText: 'pipeline' }).click();
  await page.getByLabel('Requests a minute').fill('30');
  await page.getByRole('button', { name: 'Save the key' }).click();
  await page.getByText('30 requests/min').waitFor();

  const act = async (what) => {
    await page.getByRole('button', { name: 'More actions: pipeline' }).click();
    await page.getByRole('menuitem', { name: what }).click();
    await page.locator('dialog[open]').getByRole('button', { name: what }).click();
  };
  await act('Rotate');
  const second = await page.locator('dialog[open] .code').first().textContent();
  assert.notEqual(second, key);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  assert.equal((await call(second)).status, 200);
  await act('Revoke');
  await page.getByRole('button', { name: 'More actions: pipeline' }).waitFor({ state: 'detached' });
  assert.equal((await call(second)).status, 401);

  // What a member made is not the admin's to rotate, and is theirs to revoke.
  await page.getByRole('button', { name: 'More actions: laptop' }).click();
  await page.locator('[role=menuitem][aria-disabled=true]', { hasText: 'Rotate' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Members' }).click();
  await page.getByRole('button', { name: 'Revoke keys: mia of the tests' }).click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Revoke keys' }).click();
  await page.getByText('The keys of mia of the tests are revoked.').waitFor();

  await page.getByRole('button', { name: 'Spend' }).click();
  const month = page.getByLabel('month, requests');
  assert.equal(await month.getAttribute('placeholder'), '1000');
  await month.fill('2000');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/must be at most 1000/).waitFor();
  await month.fill('500');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The budgets of the team are saved.').waitFor();
  await page.getByText(/of 500 requests/).waitFor();

  await page.getByRole('button', { name: 'Calls', exact: true }).click();
  await page.getByRole('button', { name: 'Refused' }).click();
  await page.getByRole('row', { name: /laptop.*budget/ }).first().waitFor();

  await page.getByRole('button', { name: 'Audit' }).click();
  await page.locator('button.nmad', { hasText: 'PUT /api/team/{tenant}/budgets' }).first().click();
  const record = page.getByRole('complementary', { name: /budgets/ });
  await record.getByText('200 done', { exact: true }).waitFor();
  await record.getByText('red', { exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Export all' }).count(), 0);
});

test('an administrator searches the audit, takes it away, and ends a session', inBrowser, async () => {
  const member = await signIn('mia');
  await member.getByRole('heading', { name: 'My keys', level: 1 }).waitFor();
  const page = await signIn('ada');
  await page.getByRole('link', { name: 'Keys' }).click();
  await page.getByRole('button', { name: 'Audit' }).click();
  await page.getByLabel('Who', { exact: true }).fill('mia');
  await page.getByLabel('What', { exact: true }).fill('POST /api/me/keys');
  await page.locator('button.nmad', { hasText: 'POST /api/me/keys' }).first().click();
  const record = page.getByRole('complementary', { name: 'POST /api/me/keys' });
  await record.getByText('201 done', { exact: true }).waitFor();
  assert.match(await record.textContent(), /[0-9a-f]{64}/);
  await page.reload();
  await record.waitFor(); // what is open is in the address
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByLabel('Who', { exact: true }).fill('nobody at all');
  await page.getByText('No record matches.').waitFor();
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Export all' }).click()]);
  const lines = readFileSync(await file.path(), 'utf8').trim().split('\n').map(JSON.parse);
  assert.ok(lines.length > 5 && lines.every(({ hash }) => /^[0-9a-f]{64}$/.test(hash)));
  for (const [i, line] of lines.entries()) if (i > 0) assert.equal(line.previous, lines[i - 1].hash);

  await page.getByRole('button', { name: 'People' }).click();
  await page.getByRole('button', { name: 'End: mia of the tests' }).first().click();
  await member.bringToFront();
  const began = Date.now();
  await page.locator('dialog[open]').getByRole('button', { name: 'End' }).click();
  await member.getByRole('link', { name: 'Sign in with corp' }).waitFor();
  assert.ok(Date.now() - began < 5_000);
});

test('who is refused reads why in the language of the console', inBrowser, async () => {
  const page = await signIn('eve', { locale: 'zh-CN', button: '使用 corp 登录' });
  const text = await page.textContent('body');
  assert.match(text, /没有任何规则允许您访问/);
  assert.match(text, /eve of the tests/);
  assert.equal(await page.getAttribute('html', 'lang'), 'zh-CN');
});
