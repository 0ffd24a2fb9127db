// The official client over every endpoint but chat.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { anyBackend, dialectModels, start } from './gateway.js';

const bounded = { timeout: 30_000 };
const png = Buffer.from('89504e470d0a1a0a', 'hex');

let gateway, client;
let sent = []; // bodies that left the client, where they are texts
let attempts = 0;

before(async () => {
  gateway = await start();
  client = new OpenAI({
    baseURL: gateway.base,
    apiKey: 'dummy',
    fetch: (url, init) => {
      attempts++;
      if (typeof init?.body === 'string') sent.push(JSON.parse(init.body));
      return fetch(url, init);
    },
  });
}, bounded);

after(() => gateway?.stop(), { timeout: 60_000 });

const cosine = (a, b) => {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

// Clients read numbers as doubles, and base64 carries floats.
const asFloats = (vector) => Array.from(Float32Array.from(vector));

test('embeddings are the same by default, which is base64, and as float', bounded, async () => {
  const input = ['a cat sits', 'a cat sits there', 'stock market'];
  sent = [];
  const byDefault = await client.embeddings.create({ model: 'demo-embedding', input });
  assert.equal(sent[0].encoding_format, 'base64', 'the client does not ask for base64 any more');
  const float = await client.embeddings.create({ model: 'demo-embedding', input, encoding_format: 'float' });
  assert.equal(byDefault.object, 'list');
  assert.equal(byDefault.model, 'demo-embedding');
  assert.ok(byDefault.usage.total_tokens > 0);
  assert.deepEqual(byDefault.data.map(({ index }) => index), [0, 1, 2]);
  for (const [i, { embedding }] of byDefault.data.entries()) {
    assert.ok(embedding.length >= 16);
    assert.deepEqual(asFloats(embedding), asFloats(float.data[i].embedding));
  }
  const [near, same, far] = byDefault.data.map(({ embedding }) => embedding);
  assert.ok(cosine(near, same) > cosine(near, far) + 0.3);
  const packed = await client.embeddings.create({ model: 'demo-embedding', input, encoding_format: 'base64' });
  assert.equal(typeof packed.data[0].embedding, 'string');
});

test('embeddings of one text, of token ids, and with fewer dimensions', bounded, async () => {
  for (const [input, count] of [['one', 1], [[1, 2, 3], 1], [[[1, 2], [3]], 2]]) {
    const reply = await client.embeddings.create({ model: 'demo-embedding', input, dimensions: 24 });
    assert.equal(reply.data.length, count);
    assert.equal(reply.data[0].embedding.length, 24);
  }
});

test('speech is a WAV, and that WAV is transcribed', bounded, async () => {
  const speech = await client.audio.speech.create({
    model: 'demo-tts', input: 'one two three', voice: 'alloy', response_format: 'wav', speed: 1.5,
  });
  assert.equal(speech.headers.get('content-type'), 'audio/wav');
  assert.ok(speech.headers.get('x-request-id'));
  const wav = Buffer.from(await speech.arrayBuffer());
  assert.equal(wav.toString('latin1', 0, 4), 'RIFF');
  assert.equal(wav.readUInt32LE(4), wav.length - 8);
  const file = () => toFile(wav, 'speech.wav', { type: 'audio/wav' });

  const plain = await client.audio.transcriptions.create({ model: 'demo-stt', file: await file() });
  assert.match(plain.text, new RegExp(`${wav.length} bytes of format WAV`));
  const verbose = await client.audio.transcriptions.create({
    model: 'demo-stt', file: await file(), response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'], language: 'de',
  });
  assert.equal(verbose.language, 'de');
  assert.ok(verbose.duration > 0);
  assert.ok(verbose.segments.length > 0 && verbose.words.length > 0, 'the list of granularities is lost');
  assert.equal(verbose.text, plain.text);
  for (const [response_format, begins] of [['text', plain.text.slice(0, 10)], ['srt', '1\n00:00:00,000'], ['vtt', 'WEBVTT']]) {
    const text = await client.audio.transcriptions.create({ model: 'demo-stt', file: await file(), response_format });
    assert.equal(typeof text, 'string');
    assert.ok(text.startsWith(begins), text);
  }
});

test('speech arrives while it is spoken', bounded, async () => {
  const speech = await client.audio.speech.create({ model: 'demo-tts', input: 'a '.repeat(60), voice: 'alloy', response_format: 'pcm' });
  const began = performance.now();
  let first;
  let length = 0;
  for await (const chunk of speech.body) {
    first ??= performance.now() - began;
    length += chunk.length;
  }
  const whole = performance.now() - began;
  assert.ok(length > 10_000);
  assert.ok(first < whole / 2, `the first bytes came after ${first} ms of ${whole} ms`);
});

for (const [format, extra] of [['b64_json', { response_format: 'b64_json' }], ['url', { response_format: 'url' }], ['url', {}]]) {
  test(`images as ${format}${extra.response_format ? '' : ' by default'}`, bounded, async () => {
    const reply = await client.images.generate({ model: 'demo-image', prompt: 'a cat', size: '128x96', n: 2, ...extra });
    assert.ok(reply.created > 1_000_000_000);
    assert.equal(reply.data.length, 2);
    for (const image of reply.data) {
      assert.equal(typeof image[format], 'string');
      assert.equal(image[format === 'url' ? 'b64_json' : 'url'], undefined);
      const content = format === 'url' ? Buffer.from(await (await fetch(image.url)).arrayBuffer()) : Buffer.from(image.b64_json, 'base64');
      assert.deepEqual(content.subarray(0, 8), png);
      assert.deepEqual([content.readUInt32BE(16), content.readUInt32BE(20)], [128, 96]);
    }
  });
}

test('an image and its edit, with several images and a mask', bounded, async () => {
  const make = async (prompt) => {
    const { data } = await client.images.generate({ model: 'demo-image', prompt, size: '64x64', response_format: 'b64_json' });
    return Buffer.from(data[0].b64_json, 'base64');
  };
  const [one, two] = [await make('one'), await make('two')];
  const file = (content, name) => toFile(content, name, { type: 'image/png' });
  const single = await client.images.edit({ model: 'demo-image-edit', prompt: 'red', image: await file(one, 'one.png'), response_format: 'b64_json' });
  assert.deepEqual(Buffer.from(single.data[0].b64_json, 'base64').subarray(0, 8), png);
  const several = await client.images.edit({
    model: 'demo-image-edit', prompt: 'blue', n: 2, response_format: 'b64_json',
    image: [await file(one, 'one.png'), await file(two, 'two.png')], mask: await file(one, 'mask.png'),
  });
  assert.equal(several.data.length, 2);
  assert.notEqual(several.data[0].b64_json, several.data[1].b64_json);
});

test('rerank with fetch', bounded, async () => {
  for (const path of ['/v1/rerank', '/rerank', '/v2/rerank', '/v1/reranking']) {
    const response = await fetch(gateway.base.replace(/\/v1$/, path), {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer dummy' },
      body: JSON.stringify({ model: 'demo-rerank', query: 'red fruit', documents: ['the sea', 'an apple is a red fruit', { text: 'red' }], top_n: 2, return_documents: true }),
    });
    assert.equal(response.status, 200);
    const { results, model } = await response.json();
    assert.equal(model, 'demo-rerank');
    assert.deepEqual(results.map(({ index }) => index), [1, 2]);
    assert.equal(results[0].score, results[0].relevance_score);
    assert.deepEqual(results.map(({ document }) => document.text), ['an apple is a red fruit', 'red']);
  }
});

// What each endpoint is told wrongly, and the field that is at fault.
for (const [name, call, param] of [
  ['embeddings', () => client.embeddings.create({ model: 'demo-embedding', input: [] }), 'input'],
  ['speech', () => client.audio.speech.create({ model: 'demo-tts', input: 'x', voice: 'v', speed: 4.01 }), 'speed'],
  ['transcription', async () => client.audio.transcriptions.create({ model: 'demo-stt', file: await toFile(Buffer.from('x'), 'x.wav'), response_format: 'docx' }), 'response_format'],
  ['image', () => client.images.generate({ model: 'demo-image', prompt: 'x', response_format: 'png' }), 'response_format'],
  ['image edit', async () => client.images.edit({ model: 'demo-image-edit', prompt: '', image: await toFile(png, 'x.png') }), 'prompt'],
]) {
  test(`a wrong ${name} request is refused once`, bounded, async () => {
    attempts = 0;
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, error);
      assert.equal(error.param, param);
      assert.equal(error.type, 'invalid_request_error');
      assert.ok(error.requestID);
      return true;
    });
    assert.equal(attempts, 1);
  });
}

test('chat in every dialect', bounded, async () => {
  for (const model of dialectModels) {
    const messages = [{ role: 'user', content: 'Say something about patch bays.' }];
    const plain = await client.chat.completions.create({ model, messages });
    assert.equal(plain.model, model);
    assert.ok(plain.usage.total_tokens > 0);
    const streamed = await client.chat.completions.stream({ model, messages }).finalContent();
    assert.equal(anyBackend(streamed), anyBackend(plain.choices[0].message.content), model);
  }
});

test('an endpoint that is not there is no reason to retry', bounded, async () => {
  attempts = 0;
  await assert.rejects(client.vectorStores.list(), OpenAI.NotFoundError);
  await assert.rejects(client.fineTuning.jobs.list(), OpenAI.NotFoundError);
  assert.equal(attempts, 2);
});
