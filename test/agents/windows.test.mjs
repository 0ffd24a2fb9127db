// Runs agents whose work is longer than the context window of the model. Each is to shorten its conversation
// or to end with the error of the gateway, and never to send the same prompt again and again.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { agents, limit, run, serve } from './agents.mjs';
import { done, start, usage } from './backend.mjs';

const steps = 12; // each adds about 4,000 tokens
const shells = { run_shell_command: { is_background: false }, bash: {}, Bash: {}, exec_command: {} };
let backend, gateway, home;

before(async () => {
  home = mkdtempSync(join(tmpdir(), 'patchbay-windows-'));
  backend = await start();
  const instances = [16_000, 200_000].map((window) => `{name: m${window}, base-url: "${backend.url}", context-window: ${window}}`);
  gateway = await serve(home, `services: {chat: {health-check: {enabled: false}, instances: [${instances.join(', ')}]}}\n`);
});

after(async () => {
  await gateway?.stop();
  await backend?.stop();
  Object.assign(usage, { prompt: 10 });
  rmSync(home, { recursive: true, force: true });
});

for (const agent of Object.keys(agents).filter((name) => name !== 'Codex over a WebSocket')) {
  for (const [window, isSet] of [[16_000, false], [16_000, true], [200_000, true]]) {
    test(`${agent} at a window of ${window}, ${isSet ? 'with' : 'without'} its setting`, { timeout: limit }, async () => {
      let taken = 0;
      backend.state.window = window;
      backend.state.decide = (tools) => {
        usage.prompt = Math.ceil(backend.state.requests.at(-1).body.length / 4);
        const shell = Object.keys(shells).find((name) => tools.includes(name));
        if (shell === undefined) return { text: 'A summary of the work.' };
        if (taken >= steps) return { text: done };
        const command = `seq ${++taken}0000 ${taken}2666`;
        const args = shell === 'exec_command' ? { cmd: command } : { command, description: 'Work', ...shells[shell] };
        return { call: { id: `call_${taken}`, name: shell, args } };
      };
      const ran = await run(home, { base: gateway.base, agent, model: `m${window}`, backend, secret: 'secret-0', window: isSet ? window : undefined });
      const refused = backend.state.requests.filter((r) => r.tooLong).map((r) => r.body);
      assert.equal(new Set(refused).size, refused.length, `a prompt that was refused was sent again; ${ran.all}`);
      assert.ok(refused.length <= (isSet ? 1 : steps / 2), ran.all);
      if (window === 200_000) assert.deepEqual([refused.length, taken], [0, steps], ran.all);
      assert.ok(ran.said.includes(done) || /context length|context window|prompt is too long/i.test(ran.said), ran.all);
    });
  }
}
