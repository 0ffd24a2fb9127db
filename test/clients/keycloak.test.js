// People sign in with Keycloak, as docs/identity.md tells. make test-keycloak fetches Keycloak and
// runs this; elsewhere it is skipped.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { freePort, serve } from './gateway.js';

const home = process.env.KEYCLOAK_HOME;
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const bounded = { timeout: 600_000, skip: home && executablePath ? false : 'KEYCLOAK_HOME is not set, or no Chromium is installed' };

let keycloak, gateway, browser, dir, base, issuer;

// realm is what the page has an administrator click together.
const realm = () => ({
  realm: 'acme',
  enabled: true,
  sslRequired: 'none',
  roles: { realm: [{ name: 'ai-admin' }, { name: 'ai-user' }] },
  users: [
    { username: 'ada', enabled: true, email: 'ada@example.com', emailVerified: true, firstName: 'Ada', lastName: 'Lovelace', credentials: [{ type: 'password', value: 'pw' }], realmRoles: ['ai-user'] },
    { username: 'eve', enabled: true, email: 'eve@example.com', emailVerified: true, firstName: 'Eve', lastName: 'Else', credentials: [{ type: 'password', value: 'pw' }] },
  ],
  clients: [
    {
      clientId: 'patchbay',
      secret: 'secret-of-the-client',
      redirectUris: [`${base}/auth/callback`],
      attributes: {
        'backchannel.logout.url': `${base}/auth/backchannel-logout`,
        'backchannel.logout.session.required': 'true',
        'post.logout.redirect.uris': `${base}/`,
      },
      protocolMappers: [
        {
          name: 'realm roles',
          protocol: 'openid-connect',
          protocolMapper: 'oidc-usermodel-realm-role-mapper',
          config: { 'claim.name': 'realm_access.roles', multivalued: 'true', 'userinfo.token.claim': 'true', 'jsonType.label': 'String' },
        },
      ],
    },
  ],
});

async function until(what, look, limit = 500_000) {
  for (const end = Date.now() + limit; ; await delay(200)) {
    if (await look().catch(() => false)) return;
    assert.ok(Date.now() < end, `still waiting: ${what}`);
  }
}

before(async () => {
  if (bounded.skip) return;
  dir = mkdtempSync(join(tmpdir(), 'patchbay-keycloak-'));
  base = `http://127.0.0.1:${await freePort()}`;
  const port = await freePort();
  issuer = `http://127.0.0.1:${port}/realms/acme`;
  mkdirSync(join(home, 'data', 'import'), { recursive: true });
  writeFileSync(join(home, 'data', 'import', 'acme-realm.json'), JSON.stringify(realm()));
  rmSync(join(home, 'data', 'h2'), { recursive: true, force: true });
  keycloak = spawn(join(home, 'bin', 'kc.sh'), ['start-dev', '--import-realm', '--http-host=127.0.0.1', `--http-port=${port}`], { stdio: 'ignore', detached: true });
  await until('Keycloak', async () => (await fetch(`${issuer}/.well-known/openid-configuration`)).ok);
  const file = join(dir, 'patchbay.yaml');
  writeFileSync(
    file,
    `server: {listen: '${new URL(base).host}', data-dir: '${dir}/data', public-url: '${base}'}
security:
  enabled: true
  oidc:
    - name: keycloak
      issuer: '${issuer}'
      client-id: patchbay
      client-secret: secret-of-the-client
      rules:
        - {claim: realm_access.roles, value: ai-admin, role: ADMIN}
        - {claim: realm_access.roles, value: ai-user, role: MEMBER, tenant: acme}
`,
  );
  gateway = await serve(base, file);
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
}, bounded);

after(async () => {
  await browser?.close();
  await gateway?.stop();
  if (keycloak) {
    const ended = once(keycloak, 'exit');
    process.kill(-keycloak.pid, 'SIGTERM'); // the script and the Java that it started
    await ended;
  }
  if (dir) rmSync(dir, { recursive: true, force: true });
}, bounded);

async function signIn(name) {
  const page = await (await browser.newContext({ locale: 'en-US' })).newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(`${base}/auth/login?provider=keycloak`);
  await page.fill('#username', name);
  await page.fill('#password', 'pw');
  await page.click('#kc-login');
  await page.waitForURL(`${base}/**`);
  return page;
}

test('a member signs in, makes a key, and is signed out at Keycloak', bounded, async () => {
  const page = await signIn('ada');
  const ask = (path, method = 'GET', body) => page.evaluate(async ([to, how, content]) => {
    const reply = await fetch(to, { method: how, ...(content ? { body: content, headers: { 'content-type': 'application/json' } } : {}) });
    return { ...(await reply.json()).data, status: reply.status };
  }, [path, method, body]);
  const who = await ask('/api/auth/me');
  assert.deepEqual([who.status, who.name, who.issuer], [200, 'Ada Lovelace', issuer]);
  assert.deepEqual(who.memberships, [{ tenant: 'acme', role: 'MEMBER' }]);
  assert.equal((await ask('/api/auth/keys')).status, 403);
  const key = await ask('/api/me/keys', 'POST', JSON.stringify({ name: 'laptop' }));
  assert.match(key.key ?? '', /^pb-/, JSON.stringify(key));
  assert.equal(key.tenant, 'acme');
  const there = await page.context().newPage();
  await there.goto(`${issuer}/protocol/openid-connect/logout`);
  await there.click('#kc-logout');
  await until('the end of the session', async () => (await ask('/api/auth/me')).status === 401, 60_000);
});

test('nobody gets in without a role', bounded, async () => {
  assert.match(await (await signIn('eve')).textContent('body'), /no rule of this gateway gives you access/);
});
