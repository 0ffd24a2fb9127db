// Runs agents on a model that never ends its work, with a gateway that governs runs. Each is to stop
// at its limit, without a call more, and to say why on its screen; after a raise it goes on.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { agents, limit, run, serve } from './agents.mjs';
import { done, start, usage } from './backend.mjs';

// shells are the tools of agents that run a command.
const shells = {
  Bash: (command) => ({ command, description: 'Work' }),
  exec_command: (cmd) => ({ cmd }),
  run_shell_command: (command) => ({ command, description: 'Work', is_background: false }),
  bash: (command) => ({ command, description: 'Work' }),
};

let calls = 0;

// endless returns a model that runs commands for ever, the nth one as command tells.
function endless(command) {
  return (tools, results) => {
    const shell = Object.keys(shells).find((name) => tools.includes(name));
    if (shell === undefined) return { text: 'A title' };
    return { call: { id: `call_${++calls}`, name: shell, args: shells[shell](command(results.length)) } };
  };
}

const screens = {};
after(() => process.env.SCREENS && writeFileSync(process.env.SCREENS, JSON.stringify(screens, null, 1)));

// governed starts a gateway with settings of runs for the tests of a suite.
function governed(settings) {
  const all = {};
  before(async () => {
    all.home = mkdtempSync(join(tmpdir(), 'patchbay-runs-'));
    all.backend = await start();
    all.gateway = await serve(all.home, `services: {chat: {health-check: {enabled: false}, instances: [{name: m, adapter: openai, base-url: "${all.backend.url}"}]}}
prices: {models: [{model: m, input: 1, output: 1}]}
runs: {enabled: true, ${settings}}
`);
  });
  after(async () => {
    await all.gateway?.stop();
    await all.backend?.stop();
    rmSync(all.home, { recursive: true, force: true });
  });
  all.run = async (agent, decide, more) => {
    all.backend.state.decide = decide;
    const from = all.gateway.printed.length;
    const ran = await run(all.home, { base: all.gateway.base, agent, model: 'm', backend: all.backend, secret: 'secret-0', ...more });
    await all.logged();
    const lines = all.gateway.printed.slice(from).split('\n').filter((line) => /"method":"POST","path":"\/v1\//.test(line));
    ran.statuses = lines.map((line) => JSON.parse(line).status);
    return ran;
  };
  // logged waits until the log has all calls before now: lines are written one after the other.
  all.logged = async () => {
    const mark = `/mark-${++calls}`;
    await fetch(`${all.gateway.base}${mark}`);
    while (!all.gateway.printed.includes(mark)) await all.gateway.more();
  };
  all.api = async (path, body) => {
    const response = await fetch(`${all.gateway.base}/api/runs${path}`, body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text).data;
  };
  all.runs = () => all.api('');
  return all;
}

const programs = Object.keys(agents);

describe('a limit of requests', () => {
  const most = 5;
  const all = governed(`limits: {requests: ${most}}`);
  for (const agent of programs) {
    test(`stops ${agent}`, { timeout: limit }, async () => {
      const before = (await all.runs()).map((r) => r.id);
      const ran = await all.run(agent, endless((n) => `echo ${n}`));
      const seen = (await all.runs()).filter((r) => !before.includes(r.id));
      screens[agent] = ran.said;
      assert.equal(seen.length, 1, `one run: ${JSON.stringify(seen)}\n${ran.all}`);
      assert.equal(seen[0].used.requests, most, JSON.stringify(seen));
      assert.equal(all.backend.state.requests.length, most, ran.all);
      assert.deepEqual(ran.statuses.filter((status) => status !== 200), [400], `one refusal: ${ran.statuses}\n${ran.all}`);
      assert.match(ran.said.replaceAll(/\s+/g, ' '), /This run has used 5 of 5 requests/, ran.all);
      assert.equal(seen[0].state, 'STOPPED');
    });
  }
});

describe('a limit of money', () => {
  const all = governed('limits: {cost: 0.2}');
  before(() => Object.assign(usage, { prompt: 15_000, said: 1000 })); // 0.016 a call
  after(() => Object.assign(usage, { prompt: 10, said: 5 }));
  for (const agent of programs.slice(0, 3)) {
    test(`stops ${agent}`, { timeout: limit }, async () => {
      const before = (await all.runs()).map((r) => r.id);
      const ran = await all.run(agent, endless((n) => `echo ${n}`));
      const [seen] = (await all.runs()).filter((r) => !before.includes(r.id));
      assert.ok(seen.used.cost <= 0.2, JSON.stringify(seen));
      assert.equal(ran.statuses.filter((status) => status !== 200).length, 1, ran.all);
      assert.match(ran.said.replaceAll(/\s+/g, ' '), /This run has used .* of 0\.2/, ran.all);
    });
  }
});

describe('a raise', () => {
  const all = governed('limits: {requests: 3}');
  for (const agent of programs.slice(0, 2)) {
    test(`lets ${agent} go on`, { timeout: limit }, async () => {
      const before = (await all.runs()).map((r) => r.id);
      const decide = (tools, results) => (results.length >= 4 ? { text: done } : endless((n) => `echo ${n}`)(tools, results));
      const stopped = await all.run(agent, decide);
      assert.match(stopped.said.replaceAll(/\s+/g, ' '), /This run has used 3 of 3 requests/, stopped.all);
      const [seen] = (await all.runs()).filter((r) => !before.includes(r.id));
      await all.api(`/${seen.id}/raise`, { requests: 10 });
      const went = await all.run(agent, decide, { goOnIn: stopped.dir });
      screens[`${agent} after a raise`] = went.said;
      assert.equal(went.code, 0, went.all);
      assert.ok(went.said.includes(done), went.all);
      assert.equal((await all.api(`/${seen.id}`)).used.requests, 3 + went.statuses.length, went.all);
    });
  }
});

describe('a loop', () => {
  const repeats = 4;
  const all = governed(`loops: {repeats: ${repeats}, action: stop}`);
  for (const agent of programs) {
    test(`of ${agent} is stopped`, { timeout: limit }, async () => {
      const before = (await all.runs()).map((r) => r.id);
      const ran = await all.run(agent, endless(() => 'cat no-such-file'));
      const [seen] = (await all.runs()).filter((r) => !before.includes(r.id));
      assert.equal(seen.code, 'run_loops', JSON.stringify(seen));
      assert.equal(seen.loop.rule, 'SAME_RESULT', JSON.stringify(seen));
      const steps = all.backend.state.requests.filter((r) => JSON.parse(r.body).tools?.length > 0);
      assert.equal(steps.length, repeats, ran.all); // the first call brings no result, and the last one is refused
      assert.deepEqual(ran.statuses.filter((status) => status !== 200), [400], `one refusal: ${ran.statuses}\n${ran.all}`);
    });
  }
});

describe('sub-agents', () => {
  const all = governed('limits: {requests: 100}');
  for (const [agent, tool, args] of [
    ['Claude Code', /^(Task|Agent)$/, { description: 'A part', prompt: 'Say hello', subagent_type: 'general-purpose' }],
    ['OpenCode', /^task$/, { description: 'A part', prompt: 'Say hello', subagent_type: 'general' }],
  ]) {
    test(`of ${agent} belong to its run`, { timeout: limit }, async () => {
      const before = (await all.runs()).map((r) => r.id);
      let started = 0;
      const ran = await all.run(agent, (tools, results) => {
        const name = tools.find((t) => tool.test(t));
        if (results.length > 0 || name === undefined || started++ > 0) return { text: done };
        return { call: { id: `call_${++calls}`, name, args } };
      });
      assert.equal(ran.code, 0, ran.all);
      const seen = (await all.runs()).filter((r) => !before.includes(r.id));
      assert.equal(seen.length, 1, JSON.stringify(seen));
      assert.equal(seen[0].agents, 1, JSON.stringify(seen));
    });
  }
});
