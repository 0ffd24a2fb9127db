// Records ordinary runs of real agents for the tests of rules about loops: a model that works, with edits of one
// file one after the other, commands that print nothing, searches that find nothing, tests that fail alike until a
// mistake is found, and a wait for something that takes its time. `node ordinary.mjs FILE` writes the conversation
// of each run as a line.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run, serve } from './agents.mjs';
import { done, start } from './backend.mjs';

const runs = { 'Claude Code': 50, Codex: 50 };

// random returns numbers that are the same for the same seed.
function random(seed) {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

// Each kind of work returns commands of a shell. Those of the same kind follow each other.
const work = {
  edits: (n, of) => Array.from({ length: n }, (_, i) => ({ edit: i, command: `sed -i 's/line ${i} /line ${i + of(90)}0 /' notes.txt` })),
  silent: (n, of) => Array.from({ length: n }, (_, i) => ({ command: `mkdir -p d${i}/${of(99)} && touch d${i}/f` })),
  searches: (n, of) => Array.from({ length: Math.min(n, 6) }, (_, i) => ({ command: `grep -rn word${i}${of(99)} . --include=*.c | head` })),
  reads: (n, of) => Array.from({ length: n }, (_, i) => ({ command: `head -c ${40 + i + of(40)} notes.txt` })),
  tests: (n, of) => Array.from({ length: 2 * n }, (_, i) => ({ command: i % 2 ? 'grep -c fixed notes.txt; echo 3 tests failed' : `sed -i 's/line 1 /line 1 try ${i}${of(9)} /' notes.txt` })),
  waits: (n) => Array.from({ length: n }, () => ({ command: 'echo x >> progress; wc -l progress' })),
};

function plan(seed) {
  const of = random(seed);
  const steps = [{ command: 'for i in 0 1 2 3 4 5 6 7 8 9; do echo "line $i of notes"; done > notes.txt' }];
  for (let kinds = 2 + of(3); kinds > 0; kinds--) steps.push(...Object.values(work)[of(6)](4 + of(9), of));
  return steps;
}

const tools = {
  Bash: (step, dir) =>
    step.edit === undefined
      ? ['Bash', { command: step.command, description: 'Work' }]
      : ['Edit', { file_path: `${dir}/notes.txt`, old_string: `line ${step.edit} of`, new_string: `line ${step.edit}: of` }],
  exec_command: (step) => ['exec_command', { cmd: step.command }],
};

const home = mkdtempSync(join(tmpdir(), 'patchbay-ordinary-'));
const backend = await start();
const gateway = await serve(home, `services: {chat: {health-check: {enabled: false}, instances: [{name: m, adapter: openai, base-url: "${backend.url}"}]}}\n`);
let bodies = [];
const between = createServer((request, response) => { // what the agent sent, not what the gateway made of it
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece)).on('end', () => {
    bodies.push({ path: request.url.split('?')[0], body: JSON.parse(Buffer.concat(pieces).toString() || '{}') });
    const to = forward(`${gateway.base}${request.url}`, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    to.end(Buffer.concat(pieces));
  });
});
await new Promise((listening) => between.listen(0, '127.0.0.1', listening));

const lines = [];
for (const [agent, count] of Object.entries(runs)) {
  for (let seed = 1; seed <= count; seed++) {
    const steps = plan(seed);
    backend.state.decide = (offered, results, dir) => {
      const tool = Object.keys(tools).find((name) => offered.includes(name));
      if (tool === undefined || results.length >= steps.length) return { text: done };
      const [name, args] = tools[tool](steps[results.length], dir);
      return { call: { id: `call_${seed}_${results.length}`, name, args } };
    };
    bodies = [];
    const ran = await run(home, { base: `http://127.0.0.1:${between.address().port}`, agent, model: 'm', backend, secret: 'secret-0' });
    if (ran.code !== 0 || !ran.said.includes(done)) throw new Error(ran.all);
    const { path, body } = bodies.reduce((a, b) => (JSON.stringify(a.body.messages ?? a.body.input ?? '').length > JSON.stringify(b.body.messages ?? b.body.input ?? '').length ? a : b));
    // The words of the agent itself, before the task, are not kept.
    const list = body.messages ?? body.input;
    const first = list.findIndex((m) => m.role === 'assistant' || m.type === 'function_call');
    const kept = [{ role: 'user', content: 'Do the work.' }, ...list.slice(first)];
    lines.push(JSON.stringify({ path, [body.messages ? 'messages' : 'input']: kept }).replaceAll(ran.dir, '/work'));
    console.log(`${agent} ${seed}: ${bodies.length} calls, ${steps.length} steps`);
  }
}
writeFileSync(process.argv[2], `${lines.join('\n')}\n`);
await gateway.stop();
between.close();
between.closeAllConnections();
await backend.stop();
rmSync(home, { recursive: true, force: true });
