// Runs agents without a terminal against the gateway, with a scripted backend in each
// dialect. An agent reads a file, runs a command, writes a file and ends; the file
// afterwards tells that tools and their results passed both ways.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { agents, limit, run, serve } from './agents.mjs';
import { dialects, done, output, start } from './backend.mjs';

let backend, gateway, home;

before(async () => {
  home = mkdtempSync(join(tmpdir(), 'patchbay-agents-'));
  backend = await start();
  const instances = Object.keys(dialects).map((name) => `{name: ${name}-model, adapter: ${name}, base-url: "${backend.url}"}`);
  gateway = await serve(home, `services: {chat: {health-check: {enabled: false}, instances: [${instances.join(', ')}]}}\n`);
});

after(async () => {
  await gateway?.stop();
  await backend?.stop();
  rmSync(home, { recursive: true, force: true });
});

// usedOneConnection waits for the line of the connection's end in the log of the gateway, and checks that
// every request came over it: their ids are the connection's, with a number.
async function usedOneConnection(from) {
  const end = /"request_id":"(req_[A-Z0-9]+)","method":"GET","path":"\/v1\/responses","status":101/;
  while (!end.test(gateway.printed.slice(from))) await gateway.more();
  const lines = gateway.printed.slice(from);
  const requests = [...lines.matchAll(/"request_id":"([^"]*)","method":"POST","path":"\/v1\/responses"/g)].map((found) => found[1]);
  const connection = lines.match(end)[1];
  assert.ok(requests.length >= 4 && requests.every((id) => id.startsWith(`${connection}.`)), lines);
}

for (const agent of Object.keys(agents)) {
  for (const dialect of Object.keys(dialects)) {
    if (dialect !== 'openai' && ['OpenCode', 'Qwen Code', 'Continue'].includes(agent)) continue; // slow, at a door that others try
    test(`${agent} on a backend that speaks ${dialect}`, { timeout: limit }, async () => {
      const secret = `secret-${Math.random().toString(36).slice(2)}`;
      const printedBefore = gateway.printed.length;
      const ran = await run(home, { base: gateway.base, agent, model: `${dialect}-model`, backend, secret });
      assert.equal(ran.code, 0, ran.all);
      assert.ok(ran.said.includes(done), `it did not end as it should; ${ran.all}`);
      assert.equal(readFileSync(join(ran.dir, output), 'utf8'), `${secret}\n`, ran.said);
      assert.ok(backend.state.requests.length >= 4, ran.asked);
      if (ran.upgrades) await usedOneConnection(printedBefore);
    });
  }
}
