import { describe, expect, it } from 'vitest'
import { EventParser, readEvents, type ServerEvent } from '@/lib/sse'

const encode = (text: string) => new TextEncoder().encode(text)

function parse(chunks: Uint8Array[]): ServerEvent[] {
  const parser = new EventParser()
  return chunks.flatMap((chunk) => parser.push(chunk))
}

const stream =
  ': hello\n\n' +
  'data: {"delta":"你好 中"}\n\n' +
  'event: change\r\nid: 7\r\ndata: {"a":"\\u4e2d\\n"}\r\n\r\n' +
  'data: first\ndata: second\n\n' +
  'data:{"error":{"message":"🙂 broke"}}\r\r' +
  'data: [DONE]\n\n'

const expected = [
  { event: 'message', data: '{"delta":"你好 中"}', id: '' },
  { event: 'change', data: '{"a":"\\u4e2d\\n"}', id: '7' },
  { event: 'message', data: 'first\nsecond', id: '7' },
  { event: 'message', data: '{"error":{"message":"🙂 broke"}}', id: '7' },
  { event: 'message', data: '[DONE]', id: '7' },
]

describe('the event reader', () => {
  it('reads a stream that arrives whole', () => {
    expect(parse([encode(stream)])).toEqual(expected)
  })

  it('reads a stream that arrives byte by byte', () => {
    expect(parse([...encode(stream)].map((byte) => Uint8Array.of(byte)))).toEqual(expected)
  })

  it('reads a stream that is cut in two at every place', () => {
    const bytes = encode(stream)
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(parse([bytes.slice(0, cut), bytes.slice(cut)]), `cut at ${cut}`).toEqual(expected)
    }
  })

  it('reads a stream that is cut in three at many places', () => {
    const bytes = encode(stream)
    for (let a = 0; a < bytes.length; a += 3) {
      for (let b = a; b < bytes.length; b += 5) {
        expect(parse([bytes.slice(0, a), bytes.slice(a, b), bytes.slice(b)])).toEqual(expected)
      }
    }
  })

  it('takes no event from an unfinished one', () => {
    expect(parse([encode('data: whole\n\ndata: half')]).map((e) => e.data)).toEqual(['whole'])
  })

  it('joins nothing across a comment and ignores unknown fields', () => {
    expect(parse([encode(':ping\nretry: 3\nfoo\ndata\ndata: x\n\n')])[0]!.data).toBe('\nx')
  })

  it('skips a byte order mark', () => {
    expect(parse([Uint8Array.of(0xef, 0xbb, 0xbf), encode('data: x\n\n')])[0]!.data).toBe('x')
  })

  it('keeps memory of one event only', () => {
    const parser = new EventParser()
    let count = 0
    for (let i = 0; i < 10_000; i++) count += parser.push(encode(`data: ${i}\n\n`)).length
    expect(count).toBe(10_000)
    expect((parser as unknown as { rest: string }).rest).toBe('')
  })

  it('cancels the body when the reader stops early', async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(encode('data: x\n\n')),
      cancel: () => {
        cancelled = true
      },
    })
    for await (const event of readEvents(body)) {
      expect(event.data).toBe('x')
      break
    }
    expect(cancelled).toBe(true)
  })
})
