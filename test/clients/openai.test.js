import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { anyBackend, prompt, start, weather } from './gateway.js';

const bounded = { timeout: 30_000 };
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: weather } }];

let gateway, client;
let attempts = 0; // requests that left the client

before(async () => {
  gateway = await start();
  client = new OpenAI({
    baseURL: gateway.base,
    apiKey: 'dummy',
    fetch: (...args) => (attempts++, fetch(...args)),
  });
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

const ask = (model, content = prompt) => ({ model, messages: [{ role: 'user', content }] });

async function read(stream) {
  const seen = { text: '', calls: [], usages: 0, chunks: 0, finish: null };
  for await (const chunk of stream) {
    seen.chunks++;
    if (chunk.usage) seen.usages++;
    for (const { delta, finish_reason } of chunk.choices) {
      seen.text += delta.content ?? '';
      seen.finish ??= finish_reason;
      for (const { index, id, function: f } of delta.tool_calls ?? []) {
        const call = (seen.calls[index] ??= { id: '', name: '', arguments: '' });
        call.id += id ?? '';
        call.name += f?.name ?? '';
        call.arguments += f?.arguments ?? '';
      }
    }
  }
  return seen;
}

test('chat', bounded, async () => {
  const reply = await client.chat.completions.create(ask('demo-chat'));
  assert.equal(reply.object, 'chat.completion');
  assert.equal(reply.model, 'demo-chat');
  assert.ok(reply.choices[0].message.content);
  assert.equal(reply.choices[0].finish_reason, 'stop');
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

test('every reply has its own request id', bounded, async () => {
  const first = await client.chat.completions.create(ask('demo-chat'));
  const second = await client.chat.completions.create(ask('demo-chat'));
  assert.ok(first._request_id);
  assert.notEqual(first._request_id, second._request_id);
  const { request_id } = await client.chat.completions.create({ ...ask('demo-chat'), stream: true }).withResponse();
  assert.ok(request_id);
});

for (const asked of [true, false]) {
  test(`streamed chat equals plain chat, ${asked ? 'with' : 'without'} usage`, bounded, async () => {
    const plain = await client.chat.completions.create(ask('demo-chat'));
    const options = asked ? { stream_options: { include_usage: true } } : {};
    const seen = await read(await client.chat.completions.create({ ...ask('demo-chat'), ...options, stream: true }));
    assert.equal(anyBackend(seen.text), anyBackend(plain.choices[0].message.content));
    assert.equal(seen.finish, 'stop');
    assert.ok(seen.chunks >= 3, `${seen.chunks} chunks: that is no stream`);
    assert.equal(seen.usages, asked ? 1 : 0);
  });
}

test('the stream() helper collects the same answer', bounded, async () => {
  const plain = await client.chat.completions.create(ask('demo-chat'));
  const content = await client.chat.completions.stream(ask('demo-chat')).finalContent();
  assert.equal(anyBackend(content), anyBackend(plain.choices[0].message.content));
});

test('tool call', bounded, async () => {
  const reply = await client.chat.completions.create({ ...ask('demo-chat', 'Weather in Oslo? Please use the tool.'), tools });
  const [choice] = reply.choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  assert.equal(choice.message.tool_calls.length, 1);
  assert.equal(choice.message.tool_calls[0].function.name, 'get_weather');
  assert.equal(typeof JSON.parse(choice.message.tool_calls[0].function.arguments), 'object');
});

test('streamed tool call', bounded, async () => {
  const seen = await read(
    await client.chat.completions.create({ ...ask('demo-chat', 'Weather in Oslo? Please use the tool.'), tools, stream: true }),
  );
  assert.equal(seen.finish, 'tool_calls');
  assert.equal(seen.calls.length, 1);
  assert.ok(seen.calls[0].id);
  assert.equal(seen.calls[0].name, 'get_weather');
  assert.equal(typeof JSON.parse(seen.calls[0].arguments), 'object');
});

test('an aborted stream ends at once and hurts nobody else', bounded, async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create({ ...ask('demo-slow'), stream: true }, { signal: controller.signal });
  let finish = null;
  const began = performance.now();
  try {
    for await (const chunk of stream) {
      controller.abort();
      finish ??= chunk.choices[0]?.finish_reason;
    }
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError, error);
  }
  assert.equal(finish, null, 'the stream went on to its end');
  assert.ok(performance.now() - began < 5_000);
  const reply = await client.chat.completions.create(ask('demo-chat'));
  assert.ok(reply.choices[0].message.content);
});

test('a stream that dies midway is an error', bounded, async () => {
  await assert.rejects(async () => read(await client.chat.completions.create({ ...ask('demo-cut'), stream: true })));
  await assert.rejects(client.chat.completions.stream(ask('demo-cut')).finalContent());
});

test('models', bounded, async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  for (const id of ['demo-chat', 'demo-slow', 'demo-flaky', 'demo-cut', 'demo-hang', 'demo-down']) {
    assert.equal(ids.filter((other) => other === id).length, 1, `${id} in ${ids}`);
  }
  assert.equal((await client.models.retrieve('demo-chat')).id, 'demo-chat');
  await assert.rejects(client.models.retrieve('org/no-such-model:7b'), OpenAI.NotFoundError);
});

async function failure(params) {
  attempts = 0;
  try {
    await client.chat.completions.create(params);
  } catch (error) {
    assert.equal(attempts, 1, 'attempts at what a retry cannot mend');
    assert.ok(error.requestID);
    return error;
  }
  assert.fail('no error');
}

test('an unknown model is refused once, with the nearest name', bounded, async () => {
  const error = await failure(ask('demo-chta'));
  assert.ok(error instanceof OpenAI.InternalServerError, error);
  assert.equal(error.status, 503);
  assert.equal(error.code, 'service_unavailable');
  assert.match(error.message, /demo-chat/);
});

test('a bad temperature is the caller\'s fault and says so', bounded, async () => {
  const error = await failure({ ...ask('demo-chat'), temperature: 5 });
  assert.ok(error instanceof OpenAI.BadRequestError, error);
  assert.deepEqual([error.type, error.code, error.param], ['invalid_request_error', 'invalid_value', 'temperature']);
});
