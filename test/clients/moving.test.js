// Clients of LiteLLM and Bifrost after `patchbay import` and one command: the names that they
// send go on working. A demo stands for the providers.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { prompt, start } from './gateway.js';

const binary = resolve(process.env.PATCHBAY_BIN ?? '../../bin/patchbay');
let provider;
before(async () => (provider = await start()));
after(() => provider?.stop());

const messages = [{ role: 'user', content: prompt }];

// freePort returns a port that nobody listens on.
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// moved imports a configuration, serves the result and calls a function with its address.
async function moved(name, content, use) {
  const dir = mkdtempSync(join(tmpdir(), 'patchbay-moving-'));
  writeFileSync(join(dir, name), content);
  execFileSync(binary, ['import', name], { cwd: dir, stdio: ['ignore', 'pipe', 'inherit'] });
  const base = `http://127.0.0.1:${await freePort()}`;
  const child = spawn(binary, ['serve', 'patchbay.yaml', '--listen', base.slice('http://'.length)], { cwd: dir, stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    const deadline = AbortSignal.timeout(20_000);
    while ((await fetch(`${base}/actuator/health/readiness`).then((r) => r.status, () => 0)) !== 200) {
      await delay(50, undefined, { signal: deadline }); // between two looks, not instead of them
    }
    await use(base);
  } finally {
    child.kill('SIGTERM');
    await ended;
    rmSync(dir, { recursive: true, force: true });
  }
}

test('clients of LiteLLM: anthropic/* and openai/*', { timeout: 120_000 }, async () => {
  const root = provider.base.replace(/\/v1$/, '');
  const file = `
model_list:
  - { model_name: "anthropic/*", litellm_params: { model: "anthropic/*", api_base: "${root}", api_key: any } }
  - { model_name: "openai/*", litellm_params: { model: "openai/*", api_base: "${provider.base}", api_key: any } }
general_settings: { master_key: sk-1234 }
`;
  await moved('config.yaml', file, async (base) => {
    const anthropic = new Anthropic({ baseURL: base, apiKey: 'sk-1234', maxRetries: 0 });
    const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'sk-1234', maxRetries: 0 });
    for (const model of ['anthropic/demo-claude', 'openai/demo-chat']) {
      const message = await anthropic.messages.create({ model, max_tokens: 100, messages });
      assert.equal(message.model, model);
      const chat = await openai.chat.completions.create({ model, messages });
      assert.equal(chat.model, model);
      assert.ok(chat.choices[0].message.content.length > 10);
    }
    const vectors = await openai.embeddings.create({ model: 'openai/demo-embedding', input: 'a cat' });
    assert.ok(vectors.data[0].embedding.length > 0);
  });
});

test('clients of Bifrost: openai/m with a virtual key', { timeout: 120_000 }, async () => {
  const file = JSON.stringify({
    providers: { openai: { network_config: { base_url: provider.base.replace(/\/v1$/, '') }, keys: [{ id: 'k', name: 'k', value: 'any', models: ['demo-chat', 'demo-ollama'], weight: 1 }] } },
    governance: {
      virtual_keys: [{ id: 'team', name: 'team', value: 'sk-bf-team', provider_configs: [{ provider: 'openai', allowed_models: ['demo-chat'], key_ids: ['k'] }] }],
    },
    client: { enforce_auth_on_inference: true },
  });
  await moved('config.json', file, async (base) => {
    const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'sk-bf-team', maxRetries: 0 });
    for (const model of ['openai/demo-chat', 'demo-chat']) {
      assert.equal((await openai.chat.completions.create({ model, messages })).model, model);
    }
    await assert.rejects(openai.chat.completions.create({ model: 'openai/demo-ollama', messages }), { status: 403 });
  });
});
