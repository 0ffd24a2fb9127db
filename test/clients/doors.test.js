// Official clients of the endpoints beside the unified API: Responses, completions,
// moderations and translations, on a backend of each dialect.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { anyBackend, dialectModels, prompt, start, weather } from './gateway.js';

let gateway, openai, sdk;
before(async () => {
  gateway = await start();
  openai = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 });
  sdk = createOpenAI({ baseURL: gateway.base, apiKey: 'any' });
  setTracingDisabled(true);
});
after(() => gateway?.stop());

const askForWeather = 'Weather in Oslo? Please use the tool.';

describe('doors', { concurrency: true, timeout: 120_000 }, () => {
  for (const model of dialectModels) {
    test(`openai: responses of ${model}, whole and streamed`, async () => {
      const whole = await openai.responses.create({ model, input: prompt, store: false });
      assert.equal(whole.status, 'completed');
      assert.equal(whole.model, model);
      assert.ok(whole.output_text.length > 10);
      let text = '', last;
      for await (const event of await openai.responses.create({ model, input: prompt, store: false, stream: true })) {
        if (event.type === 'response.output_text.delta') text += event.delta;
        last = event;
      }
      assert.equal(last.type, 'response.completed');
      assert.equal(anyBackend(text), anyBackend(whole.output_text));
      assert.equal(last.response.usage.total_tokens, whole.usage.total_tokens);
    });

    test(`AI SDK: the default model is a response of ${model}`, async () => {
      const { text, usage } = await generateText({ model: sdk(model), prompt, maxRetries: 0 });
      assert.ok(text.length > 10 && usage.totalTokens > 0);
      const streamed = streamText({ model: sdk(model), prompt, maxRetries: 0 });
      assert.equal(anyBackend(await streamed.text), anyBackend(text));
    });

    test(`AI SDK: steps with a tool of ${model}`, async () => {
      const asked = [];
      const result = await generateText({
        model: sdk(model), maxRetries: 0, prompt: askForWeather, stopWhen: stepCountIs(3),
        tools: { weather: tool({ description: 'The weather of a city', inputSchema: jsonSchema(weather), execute: ({ city }) => (asked.push(city), 'sunny, 24 degrees') }) },
      });
      assert.equal(asked.length, 1);
      assert.equal(result.steps.length, 2);
      assert.match(result.text, /sunny/);
    });

    test(`@openai/agents: a run with a tool of ${model}`, async () => {
      const asked = [];
      const agent = new Agent({
        name: 'Forecaster', instructions: 'Use the tool.', model,
        tools: [agentTool({ name: 'weather', description: 'The weather of a city', strict: false, parameters: { ...weather, additionalProperties: true }, execute: ({ city }) => (asked.push(city), 'sunny, 24 degrees') })],
      });
      const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses: true }), tracingDisabled: true });
      const result = await runner.run(agent, askForWeather);
      assert.equal(asked.length, 1);
      assert.match(result.finalOutput, /sunny/);
    });
  }

  test('openai: a response goes on where the one before ended, and is read and deleted', async () => {
    const first = await openai.responses.create({ model: 'demo-chat', input: prompt });
    const second = await openai.responses.create({ model: 'demo-chat', input: 'And then?', previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    assert.equal((await openai.responses.retrieve(first.id)).output_text, first.output_text);
    await openai.responses.delete(first.id);
    await assert.rejects(openai.responses.retrieve(first.id), OpenAI.NotFoundError);
  });

  for (const model of ['demo-chat', 'demo-ollama']) {
    test(`openai: completions of ${model}, whole and streamed`, async () => {
      const whole = await openai.completions.create({ model, prompt, suffix: 'The end.', echo: true });
      assert.equal(whole.object, 'text_completion');
      assert.ok(whole.choices[0].text.startsWith(prompt));
      let text = '', usage;
      const options = { model, prompt, echo: true, stream: true, stream_options: { include_usage: true } };
      for await (const chunk of await openai.completions.create(options)) {
        text += chunk.choices[0]?.text ?? '';
        usage = chunk.usage ?? usage;
      }
      assert.equal(anyBackend(text), anyBackend(whole.choices[0].text));
      assert.deepEqual(usage.total_tokens, whole.usage.total_tokens);
    });
  }

  test('openai: several completions and moderations of demo-chat; others refuse them', async () => {
    const several = await openai.completions.create({ model: 'demo-chat', prompt: ['a', 'b'], n: 2, logprobs: 1 });
    assert.equal(several.choices.length, 4);
    assert.equal(several.choices[0].logprobs.tokens.length, 1);
    const { results } = await openai.moderations.create({ model: 'demo-chat', input: ['HARM', 'peace'] });
    assert.deepEqual(results.map((r) => r.flagged), [true, false]);
    await assert.rejects(openai.completions.create({ model: 'demo-claude', prompt: 'a' }), OpenAI.BadRequestError);
  });

  test('openai: a translation of demo-stt', async () => {
    const file = new File([new Uint8Array(64)], 'a.wav', { type: 'audio/wav' });
    assert.ok((await openai.audio.translations.create({ model: 'demo-stt', file })).text.length > 0);
  });
});
