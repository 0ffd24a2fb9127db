// Runs agents without a terminal against the gateway, with a scripted backend in each
// dialect. An agent reads a file, runs a command, writes a file and ends; the file
// afterwards tells that tools and their results passed both ways.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { dialects, done, input, output, start } from './backend.mjs';

const here = import.meta.dirname;
const binary = resolve(process.env.PATCHBAY_BIN ?? join(here, '../../bin/patchbay'));
const limit = 240_000; // for one run of an agent, on a busy machine
const task = `Copy what ${input} holds into ${output}.`;
const key = 'any-key';

let backend, gateway, base, home;
let printed = ''; // by the gateway

before(async () => {
  home = mkdtempSync(join(tmpdir(), 'patchbay-agents-'));
  backend = await start();
  const instances = Object.keys(dialects).map((name) => `{name: ${name}-model, adapter: ${name}, base-url: "${backend.url}"}`);
  writeFileSync(join(home, 'config.yaml'), `services: {chat: {health-check: {enabled: false}, instances: [${instances.join(', ')}]}}\n`);
  gateway = spawn(binary, ['serve', '--config', join(home, 'config.yaml'), '--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')], {
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(gateway, 'exit').then(() => assert.fail(`the gateway ended:\n${printed}`));
  for (const from of [gateway.stdout, gateway.stderr]) from.setEncoding('utf8').on('data', (text) => (printed += text));
  while (!(base = printed.match(/(http:\/\/127\.0\.0\.1:\d+)/)?.[1])) {
    await Promise.race([ended, once(gateway.stdout, 'data'), once(gateway.stderr, 'data')]);
  }
});

after(async () => {
  if (gateway?.exitCode === null) {
    gateway.kill('SIGTERM');
    await once(gateway, 'exit');
  }
  await backend?.stop();
  rmSync(home, { recursive: true, force: true });
});

const agents = {
  'Claude Code': (model, own) => ({
    command: join(here, 'node_modules/.bin/claude'),
    args: ['-p', task, '--model', model, '--permission-mode', 'acceptEdits', '--allowedTools', 'Read,Write,Bash'],
    env: {
      ANTHROPIC_BASE_URL: base,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_SMALL_FAST_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
      CLAUDE_CONFIG_DIR: own,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    },
  }),
  Codex: (model, own) => codex(model, own, ''),
  'Codex over a WebSocket': (model, own) => ({ ...codex(model, own, ', supports_websockets=true'), upgrades: true }),
};

function codex(model, own, more) {
  return {
    command: join(here, 'node_modules/.bin/codex'),
    args: [
      'exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-m', model,
      '-c', 'model_provider="patchbay"',
      '-c', `model_providers.patchbay={name="Patchbay", base_url="${base}/v1", env_key="PATCHBAY_KEY", wire_api="responses"${more}}`,
      task,
    ],
    env: { CODEX_HOME: own, PATCHBAY_KEY: key },
  };
}

// usedOneConnection waits for the line of the connection's end in the log of the gateway, and checks that
// every request came over it: their ids are the connection's, with a number.
async function usedOneConnection(from) {
  const end = /"request_id":"(req_[A-Z0-9]+)","method":"GET","path":"\/v1\/responses","status":101/;
  while (!end.test(printed.slice(from))) await Promise.race([once(gateway.stdout, 'data'), once(gateway.stderr, 'data')]);
  const lines = printed.slice(from);
  const requests = [...lines.matchAll(/"request_id":"([^"]*)","method":"POST","path":"\/v1\/responses"/g)].map((found) => found[1]);
  const connection = lines.match(end)[1];
  assert.ok(requests.length >= 4 && requests.every((id) => id.startsWith(`${connection}.`)), lines);
}

for (const [agent, describe] of Object.entries(agents)) {
  for (const dialect of Object.keys(dialects)) {
    test(`${agent} on a backend that speaks ${dialect}`, { timeout: limit }, async () => {
      const dir = mkdtempSync(join(home, 'work-'));
      const own = join(dir, '.agent');
      mkdirSync(own);
      const secret = `secret-${Math.random().toString(36).slice(2)}`;
      writeFileSync(join(dir, input), `${secret}\n`);
      backend.state.dir = dir;
      backend.state.requests = [];
      const { command, args, env, upgrades } = describe(`${dialect}-model`, own);
      const printedBefore = printed.length;
      const child = spawn(command, args, {
        cwd: dir,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { PATH: process.env.PATH, HOME: own, TERM: 'dumb', LANG: 'C.UTF-8', ...env },
        timeout: limit - 10_000,
      });
      let said = '';
      for (const from of [child.stdout, child.stderr]) from.setEncoding('utf8').on('data', (text) => (said += text));
      const [code] = await once(child, 'exit');
      const asked = () => backend.state.requests.map((r) => `${r.method} ${r.path} ${r.body.length} bytes`).join('\n');
      assert.equal(code, 0, `it said:\n${said}\nthe backend was asked:\n${asked()}`);
      assert.ok(said.includes(done), `it did not end as it should; it said:\n${said}\nthe backend was asked:\n${asked()}`);
      assert.equal(readFileSync(join(dir, output), 'utf8'), `${secret}\n`, said);
      assert.ok(backend.state.requests.length >= 4, asked());
      if (upgrades) await usedOneConnection(printedBefore);
    });
  }
}
