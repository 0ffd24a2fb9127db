import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { dialectModels, prompt, start } from './gateway.js';

const bounded = { timeout: 30_000 };

let gateway, client;

before(async () => {
  gateway = await start();
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'dummy' });
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

// next returns the event that ends an answer, and the text that came before it.
async function next(ws) {
  let text = '';
  for await (const { type, message } of ws.stream()) {
    if (type !== 'message') continue;
    if (message.type === 'response.output_text.delta') text += message.delta;
    if (['response.completed', 'response.failed', 'response.incomplete', 'error'].includes(message.type)) {
      return { last: message, text };
    }
  }
  assert.fail('the connection ended before the answer');
}

for (const model of dialectModels) {
  test(`a conversation that is not stored goes on over one WebSocket: ${model}`, bounded, async () => {
    const ws = new ResponsesWS(client);
    try {
      ws.send({ type: 'response.create', model, input: prompt, store: false });
      const first = await next(ws);
      assert.equal(first.last.type, 'response.completed');
      assert.ok(first.text);
      ws.send({ type: 'response.create', model, input: 'And then?', store: false, previous_response_id: first.last.response.id });
      const second = await next(ws);
      assert.equal(second.last.type, 'response.completed');
      assert.equal(second.last.response.previous_response_id, first.last.response.id);
    } finally {
      ws.close();
    }
  });
}

test('errors are those of the API', bounded, async () => {
  const ws = new ResponsesWS(client);
  try {
    const fault = new Promise((resolve) => ws.on('error', resolve));
    ws.send({ type: 'response.create', model: 'demo-chat', input: 'hi', store: false, previous_response_id: 'resp_none' });
    const { error } = await fault;
    assert.match(JSON.stringify(error), /"code":"previous_response_not_found"/);
    ws.send({ type: 'response.create', model: 'demo-chat', input: prompt });
    assert.equal((await next(ws)).last.type, 'response.completed'); // the connection stays
  } finally {
    ws.close();
  }
});

test('a conversation is made short and goes on', bounded, async () => {
  const input = [
    { role: 'user', content: 'We launch on Tuesday.' },
    { role: 'assistant', content: 'Understood.' },
  ];
  const short = await client.responses.compact({ model: 'demo-chat', input });
  assert.equal(short.object, 'response.compaction');
  const reply = await client.responses.create({ model: 'demo-claude', input: [...short.output, { role: 'user', content: 'When?' }] });
  assert.equal(reply.status, 'completed');
  const count = await client.responses.inputTokens.count({ model: 'demo-chat', input: prompt });
  assert.ok(count.input_tokens > 0);
});
