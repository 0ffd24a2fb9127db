import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { cosineSimilarity, embed, embedMany, experimental_generateImage as generateImage, generateText, jsonSchema, streamText, tool } from 'ai';
import { anyBackend, dialectModels, prompt, start, weather } from './gateway.js';

const bounded = { timeout: 30_000 };

let gateway, provider;

before(async () => {
  gateway = await start();
  provider = createOpenAICompatible({ name: 'patchbay', baseURL: gateway.base, apiKey: 'dummy', includeUsage: true });
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

test('generateText and streamText give the same answer', bounded, async () => {
  const plain = await generateText({ model: provider('demo-chat'), prompt });
  const streamed = streamText({ model: provider('demo-chat'), prompt });
  assert.ok(plain.text);
  assert.equal(anyBackend(await streamed.text), anyBackend(plain.text));
  assert.equal(await streamed.finishReason, 'stop');
  assert.equal((await streamed.usage).totalTokens, plain.usage.totalTokens);
});

for (const streaming of [false, true]) {
  test(`${streaming ? 'streamed ' : ''}tool call`, bounded, async () => {
    const inputs = [];
    const get_weather = tool({ inputSchema: jsonSchema(weather), execute: (input) => inputs.push(input) });
    const options = { model: provider('demo-chat'), prompt: 'Weather in Oslo? Please use the tool.', tools: { get_weather } };
    const result = streaming ? streamText(options) : await generateText(options);
    const calls = await result.toolCalls;
    assert.equal(await result.finishReason, 'tool-calls');
    assert.deepEqual(calls.map((call) => call.toolName), ['get_weather']);
    assert.deepEqual(inputs, [calls[0].input]);
  });
}

test('a stream that dies midway is an error', bounded, async () => {
  const errors = [];
  const { fullStream } = streamText({ model: provider('demo-cut'), prompt, onError: ({ error }) => errors.push(error) });
  let text = '';
  for await (const part of fullStream) {
    if (part.type === 'text-delta') text += part.text;
  }
  assert.ok(text, 'what came before the cut is lost');
  assert.equal(errors.length, 1);
});

test('embeddings', bounded, async () => {
  const model = provider.embeddingModel('demo-embedding');
  const { embeddings, usage } = await embedMany({ model, values: ['a cat sits', 'a cat sits there', 'stock market'] });
  assert.equal(embeddings.length, 3);
  assert.ok(usage.tokens > 0);
  assert.ok(cosineSimilarity(embeddings[0], embeddings[1]) > cosineSimilarity(embeddings[0], embeddings[2]) + 0.3);
  const { embedding } = await embed({ model, value: 'a cat sits' });
  assert.deepEqual(embedding, embeddings[0]);
});

test('image', bounded, async () => {
  const { image } = await generateImage({ model: provider.imageModel('demo-image'), prompt: 'a cat', size: '64x64' });
  assert.equal(image.mediaType, 'image/png');
  assert.deepEqual(Array.from(image.uint8Array.slice(1, 4)), Array.from(Buffer.from('PNG')));
});

test('chat in every dialect', bounded, async () => {
  for (const name of dialectModels) {
    const plain = await generateText({ model: provider(name), prompt });
    const streamed = streamText({ model: provider(name), prompt });
    assert.equal(anyBackend(await streamed.text), anyBackend(plain.text), name);
    assert.equal((await streamed.usage).totalTokens, plain.usage.totalTokens, name);
  }
});
