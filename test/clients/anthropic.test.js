// The official client of Anthropic's Messages API, on a backend of each dialect.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { anyBackend, dialectModels, prompt, start, weather } from './gateway.js';

let gateway, anthropic;
before(async () => {
  gateway = await start();
  anthropic = new Anthropic({ baseURL: gateway.base.replace(/\/v1$/, ''), apiKey: 'any', maxRetries: 0 });
});
after(() => gateway?.stop());

const ask = { max_tokens: 200, messages: [{ role: 'user', content: prompt }] };
const askForWeather = { role: 'user', content: 'Weather in Oslo? Please use the tool.' };

describe('messages', { concurrency: true, timeout: 120_000 }, () => {
  for (const model of dialectModels) {
    test(`@anthropic-ai/sdk: messages of ${model}, whole and streamed`, async () => {
      const whole = await anthropic.messages.create({ ...ask, model, system: 'Be brief.', metadata: { user_id: 'u-1' } });
      assert.equal(whole.type, 'message');
      assert.equal(whole.model, model);
      assert.equal(whole.stop_reason, 'end_turn');
      assert.ok(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
      const text = whole.content.map((b) => b.text).join('');
      assert.ok(text.length > 10);

      const events = [];
      const stream = anthropic.messages.stream({ ...ask, model, system: 'Be brief.' }).on('streamEvent', (e) => events.push(e.type));
      const final = await stream.finalMessage();
      assert.equal(anyBackend(final.content.map((b) => b.text).join('')), anyBackend(text));
      assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
      assert.equal(events[0], 'message_start');
      assert.deepEqual(events.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
    });

    test(`@anthropic-ai/sdk: tools of ${model}`, async () => {
      const tools = [{ name: 'weather', description: 'The weather of a city', input_schema: weather }];
      const first = await anthropic.messages.stream({ model, max_tokens: 200, tools, messages: [askForWeather] }).finalMessage();
      assert.equal(first.stop_reason, 'tool_use');
      const use = first.content.find((b) => b.type === 'tool_use');
      assert.equal(use.name, 'weather');
      assert.equal(typeof use.input.city, 'string');
      const second = await anthropic.messages.create({
        model, max_tokens: 200, tools,
        messages: [askForWeather, { role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sunny, 24 degrees' }] }],
      });
      assert.equal(second.stop_reason, 'end_turn');
      assert.match(second.content.map((b) => b.text).join(''), /sunny/);
    });
  }

  test('@anthropic-ai/sdk: tokens are counted and models listed', async () => {
    const { input_tokens: tokens } = await anthropic.messages.countTokens({ model: 'demo-chat', messages: ask.messages });
    assert.ok(tokens > 0);
    const listed = [];
    for await (const model of anthropic.models.list()) listed.push(model.id);
    assert.ok(dialectModels.every((m) => listed.includes(m)), String(listed));
  });

  test('@anthropic-ai/sdk: errors are thrown by their types', async () => {
    // As everywhere in the unified API, a model that nobody serves is 503.
    const unknown = (e) => e instanceof Anthropic.APIError && e.status === 503 && e.error.error.type === 'overloaded_error' && e.requestID !== undefined;
    await assert.rejects(anthropic.messages.create({ ...ask, model: 'no-such-model' }), unknown);
    await assert.rejects(anthropic.messages.create({ ...ask, model: 'demo-chat', max_tokens: 'many' }), Anthropic.BadRequestError);
  });
});
