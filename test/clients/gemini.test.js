// The official client of Google's Gemini API, on a backend of each dialect.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GoogleGenAI } from '@google/genai';
import { anyBackend, dialectModels, prompt, start } from './gateway.js';

let gateway, ai;
before(async () => {
  gateway = await start();
  ai = new GoogleGenAI({ apiKey: 'any', httpOptions: { baseUrl: gateway.base.replace(/\/v1$/, '') } });
});
after(() => gateway?.stop());

describe('gemini', { concurrency: true, timeout: 120_000 }, () => {
  for (const model of dialectModels) {
    test(`@google/genai: contents of ${model}, whole and streamed`, async () => {
      const whole = await ai.models.generateContent({ model, contents: prompt, config: { maxOutputTokens: 200 } });
      assert.equal(whole.candidates[0].finishReason, 'STOP');
      assert.ok(whole.text.length > 10 && whole.usageMetadata.totalTokenCount > 0);
      let text = '';
      for await (const part of await ai.models.generateContentStream({ model, contents: prompt })) text += part.text ?? '';
      assert.equal(anyBackend(text), anyBackend(whole.text));
      assert.ok((await ai.models.countTokens({ model, contents: prompt })).totalTokens > 0);
    });

    test(`@google/genai: tools of ${model}`, async () => {
      const tools = [{ functionDeclarations: [{ name: 'weather', description: 'The weather of a city', parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } } } }] }];
      const ask = { role: 'user', parts: [{ text: 'Weather in Oslo? Please use the tool.' }] };
      const first = await ai.models.generateContent({ model, contents: [ask], config: { tools } });
      const [call] = first.functionCalls;
      assert.equal(call.name, 'weather');
      const result = { role: 'user', parts: [{ functionResponse: { id: call.id, name: 'weather', response: { result: 'sunny' } } }] };
      const second = await ai.models.generateContent({ model, contents: [ask, first.candidates[0].content, result], config: { tools } });
      assert.match(second.text, /sunny/);
    });
  }

  test('@google/genai: embeddings, models and errors', async () => {
    const { embeddings } = await ai.models.embedContent({ model: 'demo-embedding', contents: ['a', 'b'], config: { outputDimensionality: 8 } });
    assert.deepEqual(embeddings.map((e) => e.values.length), [8, 8]);
    assert.equal((await ai.models.get({ model: 'demo-chat' })).name, 'models/demo-chat');
    await assert.rejects(ai.models.get({ model: 'nothing' }), { status: 404 });
  });
});
