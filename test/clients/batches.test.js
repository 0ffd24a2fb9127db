// Files and batches with the official clients of OpenAI and Anthropic.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import { start } from './gateway.js';

const bounded = { timeout: 120_000 };

let gateway, openai, anthropic;
before(async () => {
  gateway = await start('--traffic=false', '--set', 'batches.enabled=true');
  openai = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: gateway.base.replace(/\/v1$/, ''), apiKey: 'any', maxRetries: 0 });
}, bounded);
after(() => gateway?.stop(), bounded);

const linesOf = (all) => all.map((one) => JSON.stringify(one)).join('\n');
const parsed = (text) => text.trim().split('\n').map((line) => JSON.parse(line));

// ended looks until a batch has ended; the test has a limit.
async function ended(look, isEnd) {
  for (;;) {
    const batch = await look();
    if (isEnd(batch)) return batch;
    await delay(100); // between two looks, not instead of them
  }
}

const hasEnded = ({ status }) => ['completed', 'failed', 'expired', 'cancelled'].includes(status);

test('openai: a file becomes a batch, and the batch files of results', bounded, async () => {
  const chat = (id, model) => ({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model, messages: [{ role: 'user', content: id }] } });
  const file = await openai.files.create({ file: await toFile(Buffer.from(linesOf([chat('a', 'demo-chat'), chat('b', 'demo-ollama'), chat('c', 'nobody')])), 'in.jsonl'), purpose: 'batch' });
  assert.equal(file.purpose, 'batch');
  const made = await openai.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { night: '1' } });
  const batch = await ended(() => openai.batches.retrieve(made.id), hasEnded);
  assert.equal(batch.status, 'completed');
  assert.deepEqual(batch.request_counts, { total: 3, completed: 2, failed: 1 });
  assert.equal(batch.metadata.night, '1');
  const answers = parsed(await (await openai.files.content(batch.output_file_id)).text());
  assert.deepEqual(answers.map((one) => one.custom_id), ['a', 'b']);
  assert.ok(answers.every((one) => one.response.body.choices[0].message.content.length > 0));
  const errors = parsed(await (await openai.files.content(batch.error_file_id)).text());
  assert.deepEqual(errors.map((one) => one.custom_id), ['c']);

  const listed = [];
  for await (const one of openai.batches.list({ limit: 1 })) listed.push(one.id);
  assert.ok(listed.includes(made.id));
  const files = [];
  for await (const one of openai.files.list({ limit: 1 })) files.push(one.id);
  assert.equal(files.length, 3);
  assert.equal((await openai.files.delete(file.id)).deleted, true);
  await assert.rejects(openai.files.retrieve(file.id), OpenAI.NotFoundError);
});

test('openai: embeddings, a bad file, and a batch that is cancelled', bounded, async () => {
  const one = (id) => ({ custom_id: id, method: 'POST', url: '/v1/embeddings', body: { model: 'demo-embedding', input: id } });
  const submit = async (content) => {
    const file = await openai.files.create({ file: await toFile(Buffer.from(content), 'in.jsonl'), purpose: 'batch' });
    return openai.batches.create({ input_file_id: file.id, endpoint: '/v1/embeddings', completion_window: '24h' });
  };
  const good = await submit(linesOf([one('a')]));
  assert.equal((await ended(() => openai.batches.retrieve(good.id), hasEnded)).request_counts.completed, 1);
  const bad = await submit(linesOf([one('a'), one('a')]));
  const failed = await ended(() => openai.batches.retrieve(bad.id), hasEnded);
  assert.equal(failed.status, 'failed');
  assert.equal(failed.errors.data[0].code, 'duplicate_custom_id');
  const long = await submit(linesOf(Array.from({ length: 2000 }, (_, n) => one(`l${n}`))));
  await openai.batches.cancel(long.id);
  assert.equal((await ended(() => openai.batches.retrieve(long.id), hasEnded)).status, 'cancelled');
});

test('@anthropic-ai/sdk: a message batch and its results', bounded, async () => {
  const params = (model) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'hello' }] });
  const made = await anthropic.messages.batches.create({
    requests: [{ custom_id: 'a', params: params('demo-claude') }, { custom_id: 'b', params: params('demo-chat') }, { custom_id: 'c', params: params('nobody') }],
  });
  assert.equal(made.processing_status, 'in_progress');
  const batch = await ended(() => anthropic.messages.batches.retrieve(made.id), ({ processing_status }) => processing_status === 'ended');
  assert.deepEqual(batch.request_counts, { processing: 0, succeeded: 2, errored: 1, canceled: 0, expired: 0 });
  const results = {};
  for await (const one of await anthropic.messages.batches.results(made.id)) results[one.custom_id] = one.result;
  assert.equal(results.a.type, 'succeeded');
  assert.equal(results.b.message.type, 'message');
  assert.equal(results.c.type, 'errored');
  const listed = [];
  for await (const one of anthropic.messages.batches.list({ limit: 1 })) listed.push(one.id);
  assert.deepEqual(listed, [made.id]);
  assert.equal((await anthropic.messages.batches.delete(made.id)).type, 'message_batch_deleted');
  await assert.rejects(anthropic.messages.batches.retrieve(made.id), Anthropic.NotFoundError);
});
