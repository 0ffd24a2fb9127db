// A real provider (oidc-provider) that lies or hangs, by its own settings or by a proxy in front of it that
// changes its answers, lets nobody in and locks nobody out.
import assert from 'node:assert/strict';
import { createHash, createHmac, createPrivateKey, createPublicKey, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { freePort, serve } from './gateway.js';
import { newKey, newProvider, settings } from './provider.js';

const bounded = { timeout: 180_000 };
const admin = { authorization: 'Bearer admin-token' };
const discovery = '/.well-known/openid-configuration';

let dir, front, issuer, key, stranger;
// The proxy passes requests on to answer; it changes the JSON of one path, and never answers another.
let answer, tamper, hang, asked;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'patchbay-hostile-'));
  [key, stranger] = [newKey('of-the-provider'), newKey('of-a-stranger')];
  const inner = http.createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
  await once(inner, 'listening');
  const { port } = inner.address();
  front = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, issuer);
    asked[pathname] = (asked[pathname] ?? 0) + 1;
    if (hang === pathname) return;
    const passed = http.request({ port, host: '127.0.0.1', method: request.method, path: request.url, headers: request.headers }, async (reply) => {
      let body = Buffer.concat(await reply.toArray());
      if (tamper?.path === pathname && reply.statusCode === 200) body = Buffer.from(JSON.stringify(tamper.change(JSON.parse(body))));
      response.writeHead(reply.statusCode, { ...reply.headers, 'content-length': body.length });
      response.end(body);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  front.inner = inner;
  issuer = `http://127.0.0.1:${front.address().port}`;
}, bounded);

after(() => {
  for (const server of [front, front?.inner]) {
    server?.closeAllConnections();
    server?.close();
  }
  rmSync(dir, { recursive: true, force: true });
});

// withGateway tests a gateway that has not asked its provider yet.
async function withGateway(options, body) {
  const base = `http://127.0.0.1:${await freePort()}`;
  const file = join(dir, 'patchbay.yaml');
  rmSync(join(dir, 'data'), { recursive: true, force: true });
  writeFileSync(file, settings(base, issuer, dir, createHash('sha256').update('admin-token').digest('hex')));
  [tamper, hang, asked] = [undefined, undefined, {}];
  answer = newProvider(options.issuer ?? issuer, base, { key, ...options }).callback();
  const gateway = await serve(base, file);
  try {
    await body(base);
  } finally {
    hang = undefined;
    front.closeAllConnections();
    await gateway.stop();
  }
}

// signIn signs Ada in as a browser would, and returns what the gateway shows at the end.
async function signIn(base) {
  const jars = new Map();
  const open = async (address, form) => {
    const { origin } = new URL(address);
    const jar = jars.get(origin) ?? jars.set(origin, new Map()).get(origin);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const reply = await fetch(address, { redirect: 'manual', headers: { cookie }, ...(form ? { method: 'POST', body: new URLSearchParams(form) } : {}) });
    for (const set of reply.headers.getSetCookie()) {
      const [, name, value] = set.match(/^([^=]+)=([^;]*)/);
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    return { status: reply.status, text: await reply.text(), to: reply.headers.get('location') && new URL(reply.headers.get('location'), address).href };
  };
  let page = await open(`${base}/auth/login?provider=corp`);
  const forms = [{ prompt: 'login', login: 'ada', password: 'any' }, { prompt: 'consent' }];
  for (let steps = 0; page.to && steps < 12; steps++) {
    const isQuestion = page.to.includes('/interaction/');
    const wasCallback = page.to.startsWith(`${base}/auth/callback`);
    page = isQuestion ? await open(page.to, forms.shift()) : await open(page.to);
    if (wasCallback) break;
  }
  const cookie = [...(jars.get(base) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
  const me = await fetch(`${base}/api/auth/me`, { headers: { cookie } });
  return { ...page, me: me.status };
}

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decoded = (part) => JSON.parse(Buffer.from(part, 'base64url'));
const signed = (by, claims, header = {}) => {
  const text = `${encoded({ alg: 'RS256', kid: by.kid, ...header })}.${encoded(claims)}`;
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), createPrivateKey({ key: by, format: 'jwk' })).toString('base64url')}`;
};
const hmac = (by, claims) => {
  const text = `${encoded({ alg: 'HS256', kid: key.kid })}.${encoded(claims)}`;
  return `${text}.${createHmac('sha256', by).update(text).digest('base64url')}`;
};
// lie has the proxy replace the id token of the provider by one that is made from its claims.
const lie = (make) => ({ path: '/token', change: (reply) => ({ ...reply, id_token: make(decoded(reply.id_token.split('.')[1])) }) });

test('changed answers of a provider let nobody in', bounded, async () => {
  await withGateway({}, async (base) => {
    const hour = 3600;
    const publicKey = createPublicKey(createPrivateKey({ key, format: 'jwk' }));
    const pem = publicKey.export({ type: 'spki', format: 'pem' });
    const cases = {
      'another issuer': [lie((c) => signed(key, { ...c, iss: 'https://evil.example' })), /another issuer/],
      'another audience': [lie((c) => signed(key, { ...c, aud: 'another-client' })), /another audience/],
      'another party': [lie((c) => signed(key, { ...c, aud: ['patchbay', 'x'], azp: 'x' })), /another audience/],
      'another nonce': [lie((c) => signed(key, { ...c, nonce: 'x' })), /another sign-in/],
      'no nonce': [lie(({ nonce, ...c }) => signed(key, c)), /another sign-in/],
      'no subject': [lie(({ sub, ...c }) => signed(key, c)), /&#39;sub&#39;|'sub'/],
      expired: [lie((c) => signed(key, { ...c, iat: c.iat - 2 * hour, exp: c.exp - 2 * hour })), /expired/],
      'from the future': [lie((c) => signed(key, { ...c, iat: c.iat + hour, exp: c.exp + hour })), /future/],
      'not signed': [lie((c) => `${encoded({ alg: 'none' })}.${encoded(c)}.`), /algorithm/],
      'HS256 with the public key': [lie((c) => hmac(pem, c)), /algorithm/],
      'HS256 with the published set': [lie((c) => hmac(JSON.stringify(publicKey.export({ format: 'jwk' })), c)), /algorithm/],
      'signed by a stranger': [lie((c) => signed({ ...stranger, kid: key.kid }, c)), /signature/],
      'a key inside of the token': [lie((c) => signed({ ...stranger, kid: key.kid }, c, { jwk: createPublicKey(createPrivateKey({ key: stranger, format: 'jwk' })).export({ format: 'jwk' }) })), /signature/],
      'other claims': [lie(() => ''), /id token/],
      'userinfo of somebody else': [{ path: '/me', change: (reply) => ({ ...reply, sub: 'eve' }) }, /different people/],
    };
    for (const [name, [change, why]] of Object.entries(cases)) {
      tamper = change;
      const page = await signIn(base);
      assert.deepEqual([page.status, page.me], [502, 401], `${name}: ${page.text}`);
      assert.match(page.text, why, name);
    }
    assert.ok(asked['/jwks'] <= 1, `the keys were read ${asked['/jwks']} times`);
    tamper = undefined;
    const page = await signIn(base);
    assert.deepEqual([page.status, page.me], [303, 200], page.text);
  });
});

test('a provider with another name lets nobody in', bounded, async () => {
  await withGateway({ issuer: 'https://evil.example' }, async (base) => {
    const page = await signIn(base);
    assert.deepEqual([page.status, page.me], [502, 401]);
    assert.match(page.text, /The provider cannot be used now/); // the log and doctor name the other issuer
    assert.doesNotMatch(page.text, /evil/);
  });
});

test('a provider that signs with the secret of the client lets nobody in', bounded, async () => {
  const algorithms = { enabledJWA: { idTokenSigningAlgValues: ['RS256', 'HS256'] } };
  await withGateway({ ...algorithms, client: { id_token_signed_response_alg: 'HS256' } }, async (base) => {
    const page = await signIn(base);
    assert.deepEqual([page.status, page.me], [502, 401]);
    assert.match(page.text, /algorithm/);
  });
});

test('a flood of unknown keys asks the provider once a minute', bounded, async () => {
  await withGateway({}, async (base) => {
    assert.equal((await signIn(base)).me, 200);
    assert.equal(asked['/jwks'], 1);
    tamper = lie((c) => signed(stranger, c));
    for (let i = 0; i < 5; i++) {
      const page = await signIn(base);
      assert.deepEqual([page.status, page.me], [502, 401]);
    }
    const now = Math.floor(Date.now() / 1000);
    const flood = await Promise.all(Array.from({ length: 200 }, async (_, i) => {
      const token = signed({ ...stranger, kid: `unknown-${i}` }, { iss: issuer, aud: 'patchbay', iat: now, exp: now + 60, sub: 'ada', jti: `${i}` });
      return (await fetch(`${base}/auth/backchannel-logout`, { method: 'POST', body: new URLSearchParams({ logout_token: token }) })).status;
    }));
    assert.deepEqual([...new Set(flood)], [400]);
    assert.ok(asked['/jwks'] <= 4, `205 unknown keys asked ${asked['/jwks'] - 1} times`); // a slow machine takes minutes
    tamper = undefined;
    assert.equal((await signIn(base)).me, 200, 'the truth is let in all the same');
  });
});

for (const step of [discovery, '/token', '/jwks', '/me']) {
  test(`a provider that hangs at ${step} locks nobody out`, bounded, async () => {
    await withGateway({}, async (base) => {
      hang = step;
      const waiting = signIn(base);
      assert.equal((await fetch(`${base}/api/auth/me`, { headers: admin })).status, 200, 'a token is not good meanwhile');
      const page = await waiting;
      assert.deepEqual([page.status, page.me], [502, 401], page.text);
      assert.match(page.text, /management token/);
      assert.equal((await fetch(`${base}/actuator/health/readiness`)).status, 200);
      hang = undefined;
      front.closeAllConnections();
      let last;
      for (const end = Date.now() + 60_000; last?.me !== 200; last = await signIn(base)) {
        assert.ok(Date.now() < end, `nobody gets in any more: ${last?.text}`);
      }
    });
  });
}
