import { describe, expect, it } from 'vitest'
import { pretty, replayable, spoken } from '@/pages/calls/content'
import { given, givenTexts, replayedChat, type Replay } from '@/pages/playground/replay'

const replay = (request: Record<string, unknown>): Replay => ({ requestId: 'r', service: 'chat', request })
const defaults = { system: '', temperature: 0.7, topP: 1, maxTokens: 256, stream: true }

describe('what is kept of a call', () => {
  it('reads what a stream says, as far as it is kept', () => {
    const body = { contentType: 'text/event-stream; charset=utf-8', bytes: 1000, cut: true, text: 'data: {"choices":[{"delta":{"content":"Good "}}]}\n\n: comment\n\ndata: {"choices":[{"delta":{"content":"day 中"}}]}\n\ndata: {"choi' }
    expect(spoken(body)).toBe('Good day 中')
    expect(spoken({ ...body, contentType: 'application/json' })).toBeNull()
    expect(spoken({ ...body, text: 'data: [DONE]\n\n' })).toBeNull()
  })
  it('breaks the lines of JSON, and leaves other text', () => {
    expect(pretty('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}')
    expect(pretty('model: m\n')).toBe('model: m\n')
  })
  it('replays only a request that is known as a whole', () => {
    const kept = { requestId: 'r', kept: 'content' as const }
    expect(replayable({ ...kept, request: { bytes: 9, text: '{"a":"b"}' } })).toEqual({ a: 'b' })
    expect(replayable({ ...kept, request: { bytes: 9, text: '{"a":"b"}', cut: true } })).toBeNull()
    expect(replayable({ ...kept, request: { bytes: 9, text: 'model: m\n' } })).toBeNull()
    expect(replayable({ ...kept, request: { bytes: 9, text: '[1]' } })).toBeNull()
    expect(replayable({ requestId: 'r', kept: 'headers' })).toBeNull()
    expect(replayable(undefined)).toBeNull()
  })
})

describe('a replay in the playground', () => {
  it('has the conversation, the parameters and the message to send', () => {
    const chat = replayedChat(
      replay({
        model: 'm', temperature: 0, max_tokens: 5, stream: false,
        messages: [{ role: 'system', content: 'Be short.' }, { role: 'user', content: 'One?' }, { role: 'assistant', content: 'Two.' }, { role: 'user', content: [{ type: 'text', text: 'Three?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }],
      }),
      defaults,
    )
    expect(chat.form).toEqual({ system: 'Be short.', temperature: 0, topP: 1, maxTokens: 5, stream: false })
    expect(chat.turns.map((turn) => [turn.content, turn.answers[0]?.text])).toEqual([['One?', 'Two.']])
    expect([chat.draft, chat.image]).toEqual(['Three?', 'data:image/png;base64,AA=='])
  })
  it('keeps what a strange request lacks', () => {
    for (const messages of [undefined, 'x', [{ role: 'assistant', content: 'first' }], [{ role: 'user', content: null }]]) {
      expect(replayedChat(replay({ messages, temperature: 'hot' }), defaults).form.temperature).toBe(0.7)
    }
    expect(given(replay({ voice: 3 }), 'voice', 'alloy')).toBe('alloy')
    expect(givenTexts(replay({ input: ['a', { text: 'b\nc' }] }), 'input')).toBe('a\nb c')
    expect(givenTexts(replay({ input: [[1, 2]] }), 'input')).toBeNull()
  })
})
