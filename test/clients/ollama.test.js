// The official clients of Ollama's API, on a backend of each dialect: the package, and the program where it is
// installed or OLLAMA names it.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify, stripVTControlCharacters } from 'node:util';
import { Ollama } from 'ollama';
import { anyBackend, dialectModels, prompt, start, weather } from './gateway.js';

const program = process.env.OLLAMA || 'ollama';
const home = mkdtempSync(join(tmpdir(), 'patchbay-ollama-')); // where the program keeps a key of its own
let version = '';
try {
  version = ' ' + execFileSync(program, ['--version'], { encoding: 'utf8', env: { ...process.env, HOME: home }, stdio: ['ignore', 'pipe', 'ignore'] }).match(/[0-9.]+/)[0];
} catch {
  // It is not there.
}

let gateway, ollama;
before(async () => {
  gateway = await start();
  ollama = new Ollama({ host: gateway.base.replace(/\/v1$/, '/ollama'), headers: { Authorization: 'Bearer any' } });
});
after(async () => {
  await gateway?.stop();
  rmSync(home, { recursive: true, force: true });
});

const messages = [{ role: 'user', content: prompt }];

describe('ollama', { concurrency: true, timeout: 120_000 }, () => {
  for (const model of dialectModels) {
    test(`ollama: chat and generate of ${model}, whole and streamed`, async () => {
      const whole = await ollama.chat({ model, messages, options: { num_predict: 200 } });
      assert.equal(whole.model, model);
      assert.equal(whole.done_reason, 'stop');
      assert.ok(whole.prompt_eval_count > 0 && whole.eval_count > 0 && whole.total_duration > 0);
      let text = '', last;
      for await (const part of await ollama.chat({ model, messages, stream: true })) {
        text += part.message.content;
        last = part;
      }
      assert.equal(anyBackend(text), anyBackend(whole.message.content));
      assert.ok(last.done && last.eval_count === whole.eval_count && last.eval_duration > 0);
      assert.ok((await ollama.generate({ model, prompt, system: 'Be brief.' })).response.length > 10);
    });

    test(`ollama: tools and a schema of ${model}`, async () => {
      const tools = [{ type: 'function', function: { name: 'weather', description: 'The weather of a city', parameters: weather } }];
      const ask = { role: 'user', content: 'Weather in Oslo? Please use the tool.' };
      let call;
      for await (const part of await ollama.chat({ model, messages: [ask], tools, stream: true })) call ??= part.message.tool_calls?.[0];
      assert.equal(call.function.name, 'weather');
      assert.equal(typeof call.function.arguments.city, 'string');
      const second = await ollama.chat({
        model, tools, messages: [ask, { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', tool_name: 'weather', content: 'sunny, 24 degrees' }],
      });
      assert.match(second.message.content, /sunny/);
      const formed = await ollama.chat({ model, messages, format: weather });
      assert.equal(typeof JSON.parse(formed.message.content).city, 'string');
    });
  }

  test('ollama: embeddings, models and what is refused', async () => {
    const { embeddings } = await ollama.embed({ model: 'demo-embedding', input: ['a', 'b'], dimensions: 8 });
    assert.deepEqual(embeddings.map((v) => v.length), [8, 8]);
    assert.ok((await ollama.embeddings({ model: 'demo-embedding', prompt: 'a' })).embedding.length > 8);
    const { models } = await ollama.list();
    assert.ok(dialectModels.every((m) => models.some((l) => l.name === m)));
    assert.deepEqual((await ollama.show({ model: 'demo-chat' })).capabilities, ['completion', 'tools']);
    assert.ok((await ollama.ps()).models.length > 0);
    await assert.rejects(ollama.pull({ model: 'demo-chat' }), { status_code: 403 });
    await assert.rejects(ollama.chat({ model: 'nothing', messages }), /nothing/);
  });

  test(`ollama: ls, ps, show, run, stop and pull of the program${version}`, { skip: version ? false : 'ollama is not installed' }, async () => {
    const env = { ...process.env, HOME: home, OLLAMA_HOST: gateway.base.replace(/\/v1$/, '/ollama') };
    const command = async (...args) => {
      const running = promisify(execFile)(program, args, { env, timeout: 60_000 });
      running.child.stdin.end(); // else run waits for more of the prompt
      return stripVTControlCharacters((await running).stdout);
    };
    const listed = await command('ls');
    for (const model of dialectModels) {
      assert.match(listed, new RegExp(`^${model} +[0-9a-f]{12} `, 'm'));
      assert.match(await command('show', model), /completion/);
      assert.match(anyBackend(await command('run', model, prompt)), /a simulated backend/);
    }
    assert.equal(await command('ls').then((again) => again.match(/demo-chat +\S+/)[0]), listed.match(/demo-chat +\S+/)[0]);
    assert.match(await command('ps'), /^NAME +ID[^]*^demo-\S+ +[0-9a-f]{12} /m);
    await command('stop', 'demo-ollama');
    await assert.rejects(command('pull', 'llama3.2'), { code: 1, stderr: /This is a gateway: its models .* cannot be pulled/ });
  });
});
