// What a browser asks before it lets a page use the client. Headers that pages
// and other programs may not set with fetch are sent with node:http.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { start } from './gateway.js';

const bounded = { timeout: 30_000 };
const origin = 'https://app.example';
// In the order and spelling of Chromium: lower case, sorted, without spaces.
const asked = 'authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,' +
  'x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout';
const simple = new Set(['accept', 'accept-language', 'content-language']);

let gateway;

before(async () => {
  gateway = await start();
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

async function send(method, path, headers, body) {
  const request = http.request(gateway.base + path, { method, headers: { 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'cross-site', ...headers } });
  request.end(body);
  const [response] = await once(request, 'response');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return { status: response.statusCode, headers: response.headers, text };
}

const list = (value) => (value ?? '').split(',').map((name) => name.trim().toLowerCase());

const preflight = (path, method, names) =>
  send('OPTIONS', path, { origin, 'access-control-request-method': method, 'access-control-request-headers': names });

const endpoints = {
  '/chat/completions': '{"model":"demo-chat","messages":[{"role":"user","content":"hi"}]}',
  '/embeddings': '{"model":"demo-embedding","input":"hi"}',
  '/rerank': '{"model":"demo-rerank","query":"a","documents":["a"]}',
  '/audio/speech': '{"model":"demo-tts","input":"hi","voice":"v"}',
  '/audio/transcriptions': undefined,
  '/images/generations': '{"model":"demo-image","prompt":"a cat","size":"64x64"}',
  '/images/edits': undefined,
};

for (const [path, body] of Object.entries(endpoints)) {
  test(`a page may post to ${path}`, bounded, async () => {
    const allowed = await preflight(path, 'POST', asked);
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers['access-control-allow-origin'], '*');
    assert.equal(allowed.headers['access-control-allow-credentials'], undefined);
    assert.ok(list(allowed.headers['access-control-allow-methods']).includes('post'));
    const names = list(allowed.headers['access-control-allow-headers']);
    for (const name of asked.split(',')) {
      // A star would not do: the standard leaves Authorization out of it.
      assert.ok(simple.has(name) || names.includes(name), `${name} is not in ${names}`);
    }
    assert.match(allowed.headers.vary ?? '', /access-control-request-headers/i);

    const reply = await send('POST', path, { origin, 'content-type': 'application/json', authorization: 'Bearer x' }, body ?? '{}');
    assert.equal(reply.status, body ? 200 : 415);
    assert.equal(reply.headers['access-control-allow-origin'], '*');
    const exposed = list(reply.headers['access-control-expose-headers']);
    for (const name of ['x-request-id', 'retry-after', 'retry-after-ms', 'x-should-retry', 'x-router-instance', 'x-router-attempts']) {
      assert.ok(exposed.includes(name), `${name} is not in ${exposed}`);
    }
  });
}

test('errors and streams can be read by pages, too', bounded, async () => {
  for (const [path, body, status] of [
    ['/chat/completions', '{"model":"demo-chat"}', 400],
    ['/nothing', '{}', 404],
    ['/chat/completions', '{"model":"none","messages":[{"role":"user","content":"hi"}]}', 503],
    ['/chat/completions', '{"model":"demo-chat","stream":true,"messages":[{"role":"user","content":"hi"}]}', 200],
  ]) {
    const reply = await send('POST', path, { origin, 'content-type': 'application/json' }, body);
    assert.equal(reply.status, status, reply.text);
    assert.equal(reply.headers['access-control-allow-origin'], '*');
    assert.ok(list(reply.headers['access-control-expose-headers']).includes('x-request-id'));
  }
});

test('pages of other sites do not reach what is stored while no key is needed', bounded, async () => {
  for (const path of ['/files', '/batches', '/messages/batches']) {
    const reply = await send('GET', path, { origin });
    assert.equal(reply.status, 403, reply.text);
    assert.equal(reply.headers['access-control-allow-origin'], undefined);
  }
});

test('a preflight cannot put anything of its own into the reply', bounded, async () => {
  const { status, headers } = await preflight('/chat/completions', 'POST', 'x-good, bad name, x"quote, ' + 'x'.repeat(200));
  assert.equal(status, 204);
  const names = list(headers['access-control-allow-headers']);
  assert.ok(names.includes('x-good') && names.includes('authorization') && names.includes('content-type'));
  assert.ok(names.every((name) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)), names);
});
