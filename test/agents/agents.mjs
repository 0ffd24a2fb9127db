// Starts the gateway and agents without a terminal.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { input, output } from './backend.mjs';

const here = import.meta.dirname;
const binary = resolve(process.env.PATCHBAY_BIN ?? join(here, '../../bin/patchbay'));
export const limit = 240_000; // for one run of an agent, on a busy machine
const task = `Copy what ${input} holds into ${output}.`;
const key = 'any-key';

// serve starts a gateway with a configuration in a folder, and waits until it listens.
export async function serve(home, config) {
  writeFileSync(join(home, 'config.yaml'), config);
  const child = spawn(binary, ['serve', '--config', join(home, 'config.yaml'), '--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')], {
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const gateway = { printed: '', base: '' };
  const ended = once(child, 'exit').then(() => assert.fail(`the gateway ended:\n${gateway.printed}`));
  for (const from of [child.stdout, child.stderr]) from.setEncoding('utf8').on('data', (text) => (gateway.printed += text));
  gateway.more = () => Promise.race([ended, once(child.stdout, 'data'), once(child.stderr, 'data')]);
  while (!(gateway.base = gateway.printed.match(/(http:\/\/127\.0\.0\.1:\d+)/)?.[1])) await gateway.more();
  gateway.stop = async () => {
    ended.catch(() => {});
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  return gateway;
}

// agents describe how each agent is run on a model: base is the address of the gateway, own a folder for what
// the agent keeps, window the context window that it is told, if any.
export const agents = {
  'Claude Code': (base, model, own, window) => ({
    command: 'claude',
    args: ['-p', task, '--model', model, '--permission-mode', 'acceptEdits', '--allowedTools', 'Read,Write,Edit,Bash,Task,Agent'],
    goOn: ['-p', 'Go on.', '--continue', '--model', model],
    env: {
      ANTHROPIC_BASE_URL: base,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_SMALL_FAST_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
      CLAUDE_CONFIG_DIR: own,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      ...(window && { CLAUDE_CODE_MAX_CONTEXT_TOKENS: `${window}` }),
    },
  }),
  Codex: (base, model, own, window) => codex(base, model, own, '', window),
  'Codex over a WebSocket': (base, model, own) => ({ ...codex(base, model, own, ', supports_websockets=true'), upgrades: true }),
  OpenCode: (base, model, own, window) => ({
    command: 'opencode',
    args: ['run', '-m', `patchbay/${model}`, task],
    env: {
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        provider: { patchbay: { npm: '@ai-sdk/openai-compatible', name: 'Patchbay', options: { baseURL: `${base}/v1`, apiKey: key }, models: { [model]: { name: model, ...(window && { limit: { context: window, output: 4096 } }) } } } },
        permission: { '*': 'allow' },
      }),
    },
  }),
  'Qwen Code': (base, model, own, window) => {
    mkdirSync(join(own, '.qwen'), { recursive: true });
    writeFileSync(join(own, '.qwen/settings.json'), JSON.stringify({
      privacy: { usageStatisticsEnabled: false },
      general: { enableAutoUpdate: false },
      model: { generationConfig: { contextWindowSize: window, customHeaders: { 'x-router-run': '$QWEN_RUN' } } },
    }));
    return {
      command: 'qwen',
      args: ['-p', task, '--yolo', '--auth-type', 'openai', '-m', model, '--openai-base-url', `${base}/v1`, '--openai-api-key', key],
      env: { QWEN_RUN: `task-${own}` }, // Qwen Code tells nothing of its sessions
    };
  },
  Continue: (base, model, own, window) => {
    const config = join(own, 'config.yaml');
    const completion = window && { defaultCompletionOptions: { contextLength: window } };
    const headers = { 'x-router-run': `task-${own}` }; // Continue tells nothing of its sessions
    writeFileSync(config, JSON.stringify({
      name: 'Patchbay', version: '1.0.0', schema: 'v1',
      models: [{ name: model, provider: 'openai', model, apiBase: `${base}/v1`, apiKey: key, requestOptions: { headers }, ...completion }],
    }));
    return { command: 'cn', args: ['-p', task, '--config', config, '--auto'], env: { CONTINUE_GLOBAL_DIR: own } };
  },
};

function codex(base, model, own, more, window) {
  const settings = [
    '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-m', model,
    '-c', 'model_provider="patchbay"',
    '-c', `model_providers.patchbay={name="Patchbay", base_url="${base}/v1", env_key="PATCHBAY_KEY", wire_api="responses"${more}}`,
    ...(window ? ['-c', `model_context_window=${window}`] : []),
  ];
  return {
    command: 'codex',
    args: ['exec', ...settings, task],
    goOn: ['exec', 'resume', '--last', ...settings, 'Go on.'],
    env: { CODEX_HOME: own, PATCHBAY_KEY: key },
  };
}

// run runs an agent in a new folder of the home, and returns its exit code, what it said, and the folder. The input
// has a secret. In the folder of a run before, the agent goes on with its session.
export async function run(home, { base, agent, model, backend, secret, goOnIn, window }) {
  const dir = goOnIn ?? mkdtempSync(join(home, 'work-'));
  const own = join(dir, '.agent');
  mkdirSync(own, { recursive: true });
  writeFileSync(join(dir, input), `${secret}\n`);
  backend.state.dir = dir;
  backend.state.requests = [];
  const { command, args, goOn, env, upgrades } = agents[agent](base, model, own, window);
  const child = spawn(join(here, 'node_modules/.bin', command), goOnIn ? goOn : args, {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: own, TERM: 'dumb', LANG: 'C.UTF-8', ...env },
    timeout: limit - 10_000,
  });
  let said = '';
  for (const from of [child.stdout, child.stderr]) from.setEncoding('utf8').on('data', (text) => (said += text));
  const [code] = await once(child, 'close');
  const asked = backend.state.requests.map((r) => `${r.method} ${r.path} ${r.body.length} bytes`).join('\n');
  return { code, said, dir, upgrades, asked, all: `it said:\n${said}\nthe backend was asked:\n${asked}` };
}
