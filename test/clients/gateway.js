// Starts the binary as a user would, and stops it by its own process id.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const startLimit = 20_000;
const stopLimit = 40_000; // the grace for open requests is 30 s

// dialectModels are models of the demo, one for each dialect that backends speak.
export const dialectModels = ['demo-chat', 'demo-ollama', 'demo-claude', 'demo-gemini'];

export const prompt = 'Say something about patch bays.';

export const weather = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};

// start starts the demo; more are further arguments.
export async function start(...more) {
  const binary = resolve(process.env.PATCHBAY_BIN ?? '../../bin/patchbay');
  const dir = mkdtempSync(join(tmpdir(), 'patchbay-clients-'));
  const child = spawn(binary, ['demo', '--listen', '127.0.0.1:0', ...more], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (printed += text));
  const deadline = AbortSignal.timeout(startLimit);
  try {
    let base;
    while (!(base = printed.match(/API base\s+(http:\/\/\S+\/v1)\s/)?.[1])) {
      const event = await Promise.race([once(child.stderr, 'data', { signal: deadline }), ended.then(() => 'ended')]);
      assert.notEqual(event, 'ended', 'it ended before it printed its address');
    }
    await ready(base.replace(/\/v1$/, '/actuator/health/readiness'), deadline);
    return { base, stop: () => stop(child, ended, dir) };
  } catch (cause) {
    child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
    throw new Error(`the gateway did not start; it printed:\n${printed}`, { cause });
  }
}

// serve starts a gateway with a configuration file that has it listen at an address.
export async function serve(address, file) {
  const binary = resolve(process.env.PATCHBAY_BIN ?? '../../bin/patchbay');
  const dir = mkdtempSync(join(tmpdir(), 'patchbay-clients-'));
  const child = spawn(binary, ['serve', '--config', file], { cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'exit');
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (printed += text));
  try {
    await ready(`${address}/actuator/health/readiness`, AbortSignal.timeout(startLimit));
    return { stop: () => stop(child, ended, dir) };
  } catch (cause) {
    child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
    throw new Error(`the gateway did not start; it printed:\n${printed}`, { cause });
  }
}

async function ready(url, deadline) {
  for (;;) {
    const status = await fetch(url, { signal: deadline }).then((r) => r.status, () => 0);
    if (status === 200) return;
    await delay(50, undefined, { signal: deadline }); // between two looks, not instead of them
  }
}

async function stop(child, ended, dir) {
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), stopLimit);
  const [code, signal] = await ended;
  clearTimeout(late);
  rmSync(dir, { recursive: true, force: true });
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, 'the end after SIGTERM');
}

// freePort returns a port on which nobody listens.
export async function freePort() {
  const listener = net.createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

// The demo's two backends say their names; this makes their answers comparable.
export const anyBackend = (text) => text.replace('I am B,', 'I am A,');
