// The official client of Ollama's API, on a backend of each dialect.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Ollama } from 'ollama';
import { anyBackend, dialectModels, prompt, start, weather } from './gateway.js';

let gateway, ollama;
before(async () => {
  gateway = await start();
  ollama = new Ollama({ host: gateway.base.replace(/\/v1$/, '/ollama'), headers: { Authorization: 'Bearer any' } });
});
after(() => gateway?.stop());

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
});
