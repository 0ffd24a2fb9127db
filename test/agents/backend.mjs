// A scripted backend in four dialects. It plays a model that works on a task in an
// agent: it reads a file, counts its bytes with a command, writes what it read into
// another file, and ends. Where it is in the task it knows from the conversation: from
// how many results of tools there are.
import { createServer } from 'node:http';

export const input = 'in.txt';
export const output = 'out.txt';
export const done = 'The work is done.';

// steps are the calls of tools that an agent offers, by the tool that tells it apart.
const steps = {
  Checklist: [ // of Continue
    (dir) => ['Read', { filepath: `${dir}/${input}` }],
    () => ['Bash', { command: `wc -c ${input}` }],
    (dir, secret) => ['Write', { filepath: `${dir}/${output}`, content: `${secret}\n` }],
  ],
  Write: [
    (dir) => ['Read', { file_path: `${dir}/${input}` }],
    () => ['Bash', { command: `wc -c ${input}`, description: 'Count the bytes' }],
    (dir, secret) => ['Write', { file_path: `${dir}/${output}`, content: `${secret}\n` }],
  ],
  exec_command: [
    () => ['exec_command', { cmd: `cat ${input}` }],
    () => ['exec_command', { cmd: `wc -c ${input}` }],
    (_, secret) => ['exec_command', { cmd: `printf '%s\\n' '${secret}' > ${output}` }],
  ],
  shell_command: [
    () => ['shell_command', { command: `cat ${input}` }],
    () => ['shell_command', { command: `wc -c ${input}` }],
    (_, secret) => ['shell_command', { command: `printf '%s\\n' '${secret}' > ${output}` }],
  ],
  shell: [
    () => ['shell', { command: ['sh', '-c', `cat ${input}`] }],
    () => ['shell', { command: ['sh', '-c', `wc -c ${input}`] }],
    (_, secret) => ['shell', { command: ['sh', '-c', `printf '%s\\n' '${secret}' > ${output}`] }],
  ],
  write_file: [
    (dir) => ['read_file', { file_path: `${dir}/${input}` }],
    () => ['run_shell_command', { command: `wc -c ${input}`, description: 'Count the bytes', is_background: false }],
    (dir, secret) => ['write_file', { file_path: `${dir}/${output}`, content: `${secret}\n` }],
  ],
  write: [
    (dir) => ['read', { filePath: `${dir}/${input}` }],
    () => ['bash', { command: `wc -c ${input}`, description: 'Count the bytes' }],
    (dir, secret) => ['write', { filePath: `${dir}/${output}`, content: `${secret}\n` }],
  ],
};

// next decides what the model says: a text, or a call of a tool. The secret is what the
// file has, and stands in a result only if the agent has read it.
function next(tools, results, dir) {
  const kind = Object.keys(steps).find((name) => tools.includes(name));
  if (kind === undefined) return { text: 'A title' }; // agents ask for titles beside the task
  if (results.length >= steps[kind].length) return { text: done };
  const secret = results.join('\n').match(/secret-[a-z0-9]+/)?.[0] ?? 'nothing was read';
  const [name, args] = steps[kind][results.length](dir, secret);
  return { call: { id: `call_${results.length}`, name, args } };
}

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((p) => p.text ?? textOf(p.content ?? p.output)).join('');
export const usage = { prompt: 10, said: 5 }; // tokens of an answer; a test may change them
let answers = 0; // agents join answers that have the same id

// dialects say for each API how a conversation is read, and how an answer is written,
// as a list of events that are sent one by one.
export const dialects = {
  openai: {
    path: /^\/v1\/chat\/completions$/,
    read: (body) => ({
      tools: (body.tools ?? []).map((t) => t.function?.name),
      results: body.messages.filter((m) => m.role === 'tool').map((m) => textOf(m.content)),
      stream: body.stream === true,
    }),
    write({ text, call }, stream) {
      const calls = call && [{ index: 0, id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.args) } }];
      const head = { id: `chatcmpl-${++answers}`, created: 1, model: 'scripted' };
      const counts = { prompt_tokens: usage.prompt, completion_tokens: usage.said, total_tokens: usage.prompt + usage.said };
      const reason = call ? 'tool_calls' : 'stop';
      if (!stream) {
        const message = { role: 'assistant', content: text ?? null, ...(calls && { tool_calls: calls }) };
        return { type: 'application/json', parts: [JSON.stringify({ ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: reason }], usage: counts })] };
      }
      const chunk = (delta, finish_reason = null) => ({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] });
      const chunks = [chunk({ role: 'assistant', content: text ?? null })];
      if (call) {
        const half = Math.ceil(calls[0].function.arguments.length / 2);
        const all = calls[0].function.arguments;
        chunks.push(chunk({ tool_calls: [{ ...calls[0], function: { name: call.name, arguments: all.slice(0, half) } }] }));
        chunks.push(chunk({ tool_calls: [{ index: 0, function: { arguments: all.slice(half) } }] }));
      }
      chunks.push(chunk({}, reason), { ...head, object: 'chat.completion.chunk', choices: [], usage: counts });
      return { type: 'text/event-stream', parts: [...chunks.map((c) => `data: ${JSON.stringify(c)}\n\n`), 'data: [DONE]\n\n'] };
    },
  },
  anthropic: {
    path: /^\/v1\/messages(\/count_tokens)?$/,
    read: (body) => ({
      tools: (body.tools ?? []).map((t) => t.name),
      results: body.messages.flatMap((m) => (Array.isArray(m.content) ? m.content : [])).filter((b) => b.type === 'tool_result').map((b) => textOf(b.content)),
      stream: body.stream === true,
    }),
    write({ text, call }, stream, path) {
      if (path.endsWith('count_tokens')) return { type: 'application/json', parts: [JSON.stringify({ input_tokens: usage.prompt })] };
      const block = call ? { type: 'tool_use', id: `toolu_${call.id}`, name: call.name, input: call.args } : { type: 'text', text };
      const head = { id: `msg_${++answers}`, type: 'message', role: 'assistant', model: 'scripted' };
      const counts = { input_tokens: usage.prompt, output_tokens: usage.said };
      const reason = call ? 'tool_use' : 'end_turn';
      if (!stream) return { type: 'application/json', parts: [JSON.stringify({ ...head, content: [block], stop_reason: reason, stop_sequence: null, usage: counts })] };
      const json = call && JSON.stringify(call.args);
      const events = [
        { type: 'message_start', message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage: { ...counts, output_tokens: 1 } } },
        { type: 'content_block_start', index: 0, content_block: call ? { ...block, input: {} } : { type: 'text', text: '' } },
        ...(call
          ? [json.slice(0, 5), json.slice(5)].map((partial_json) => ({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json } }))
          : [{ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }]),
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: usage.said } },
        { type: 'message_stop' },
      ];
      return { type: 'text/event-stream', parts: events.map((e) => `event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`) };
    },
  },
  gemini: {
    path: /^\/v1beta\/models\/[^:]+:(stream)?[gG]enerateContent$/,
    read: (body, path) => ({
      tools: (body.tools ?? []).flatMap((t) => t.functionDeclarations ?? []).map((f) => f.name),
      results: body.contents.flatMap((c) => c.parts ?? []).filter((p) => p.functionResponse).map((p) => JSON.stringify(p.functionResponse.response)),
      stream: path.includes(':stream'),
    }),
    write({ text, call }, stream) {
      const part = call ? { functionCall: { name: call.name, args: call.args }, thoughtSignature: 'c2lnbmVk' } : { text };
      const answer = {
        candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
        usageMetadata: { promptTokenCount: usage.prompt, candidatesTokenCount: usage.said, totalTokenCount: usage.prompt + usage.said },
        modelVersion: 'scripted',
      };
      return stream
        ? { type: 'text/event-stream', parts: [`data: ${JSON.stringify(answer)}\r\n\r\n`] }
        : { type: 'application/json', parts: [JSON.stringify(answer)] };
    },
  },
  ollama: {
    path: /^\/api\/chat$/,
    read: (body) => ({
      tools: (body.tools ?? []).map((t) => t.function?.name),
      results: body.messages.filter((m) => m.role === 'tool').map((m) => m.content),
      stream: body.stream !== false,
    }),
    write({ text, call }, stream) {
      const head = { model: 'scripted', created_at: '2026-01-01T00:00:00Z' };
      const message = { role: 'assistant', content: text ?? '', ...(call && { tool_calls: [{ function: { name: call.name, arguments: call.args } }] }) };
      const end = { done: true, done_reason: 'stop', prompt_eval_count: usage.prompt, eval_count: usage.said };
      if (!stream) return { type: 'application/json', parts: [JSON.stringify({ ...head, message, ...end })] };
      return { type: 'application/x-ndjson', parts: [{ ...head, message, done: false }, { ...head, message: { role: 'assistant', content: '' }, ...end }].map((l) => `${JSON.stringify(l)}\n`) };
    },
  },
};

// start starts the backend on loopback. The directory is where the agent works, and decide
// tells what the model says, and window is in tokens; all may be set for every run. The requests that it got are
// kept for people who look at a failure.
export async function start() {
  const state = { dir: '', decide: next, requests: [], window: Infinity };
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (piece) => (text += piece));
    request.on('end', () => {
      const path = request.url.split('?')[0];
      const dialect = Object.values(dialects).find((d) => d.path.test(path));
      state.requests.push({ method: request.method, path: request.url, body: text });
      if (request.method !== 'POST' || dialect === undefined) {
        response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"not scripted"}}');
        return;
      }
      if (text.length / 4 > state.window) {
        state.requests.at(-1).tooLong = true;
        const message = `This model's maximum context length is ${state.window} tokens. However, your messages resulted in ${text.length / 4} tokens.`;
        response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message, type: 'invalid_request_error', code: 'context_length_exceeded' } }));
        return;
      }
      const { tools, results, stream } = dialect.read(JSON.parse(text), path);
      const answer = dialect.write(state.decide(tools, results, state.dir), stream, path);
      response.writeHead(200, { 'content-type': answer.type });
      for (const part of answer.parts) response.write(part);
      response.end();
    });
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  return { state, url: `http://127.0.0.1:${server.address().port}`, stop: () => new Promise((closed) => server.close(closed) && server.closeAllConnections()) };
}
