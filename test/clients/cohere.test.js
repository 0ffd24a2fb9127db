// Cohere's client knows only its own service; rerank works here, too.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CohereClientV2, CohereError } from 'cohere-ai';
import { start } from './gateway.js';

const bounded = { timeout: 30_000 };
const documents = ['the sea is blue', 'an apple is a red fruit', 'red'];

let gateway, client;

before(async () => {
  gateway = await start();
  client = new CohereClientV2({ baseUrl: gateway.base.replace(/\/v1$/, ''), token: 'dummy', maxRetries: 0 });
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

test('rerank', bounded, async () => {
  const { id, results } = await client.rerank({ model: 'demo-rerank', query: 'red fruit', documents });
  assert.ok(id);
  assert.deepEqual(results.map(({ index }) => index), [1, 2, 0]);
  for (const [i, { relevanceScore }] of results.entries()) {
    assert.equal(typeof relevanceScore, 'number');
    assert.ok(i === 0 || relevanceScore <= results[i - 1].relevanceScore);
  }
});

test('the best one only', bounded, async () => {
  const { results } = await client.rerank({ model: 'demo-rerank', query: 'red fruit', documents, topN: 1 });
  assert.deepEqual(results.map(({ index }) => index), [1]);
});

test('errors have a status and a body', bounded, async () => {
  const rejected = async (request, status, code) => {
    await assert.rejects(client.rerank(request), (error) => {
      assert.ok(error instanceof CohereError, error);
      assert.equal(error.statusCode, status);
      assert.equal(error.body.error.code, code);
      return true;
    });
  };
  await rejected({ model: 'demo-rerank', query: 'x', documents: [] }, 400, 'invalid_value');
  await rejected({ model: 'demo-rernak', query: 'x', documents }, 503, 'service_unavailable');
});
