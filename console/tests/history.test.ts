import { describe, expect, it } from 'vitest'
import { beganWithin } from '@/live/series'
import { keep, restore, speedOf, type Turn } from '@/pages/playground/chat-state'
import { parseOnly } from '@/pages/quota/usage'
import { inFile } from '@/pages/services/form'
import { curlOf } from '@/shell/api-calls'

const turn = (id: number, content: string, state: 'done' | 'failed' = 'done'): Turn => ({
  id, content, image: 'data:image/png;base64,AAAA',
  answers: [{ model: 'm', text: 'a', state, error: null, requestId: 'req_1', handle: 'i-1', attempts: 1, overheadMs: 1, began: 0, firstTokenMs: 1, endMs: 2, usage: null, events: 3, ticks: [1, 2] }],
})

describe('the conversation that a browser keeps', () => {
  it('is what was asked and answered, without pictures and failures', () => {
    const kept = restore(keep([turn(1, 'one'), turn(2, 'two', 'failed'), turn(3, 'three')]))
    expect(kept.map((one) => [one.id, one.content, one.image, one.answers[0]!.text])).toEqual([[1, 'one', null, 'a'], [2, 'three', null, 'a']])
  })
  it('has the speed that it had before the reload, also of an answer that was stopped long after its last event', () => {
    const asked = turn(1, 'one')
    const answer = { ...asked.answers[0]!, state: 'stopped' as const, firstTokenMs: 100, events: 11, ticks: [100, 600, 1100], endMs: 9000 }
    const before = speedOf(answer, 9000)
    const after = restore(keep([{ ...asked, answers: [answer] }]))[0]!.answers[0]!
    expect(before).toEqual({ perSecond: 10, isTold: false })
    expect(speedOf(after, 9000)).toEqual(before)
  })
  it('is bounded, and loses its beginning first', () => {
    const kept = restore(keep(Array.from({ length: 30 }, (_, i) => turn(i, `${i} ${'x'.repeat(20_000)}`))))
    expect(kept.length).toBeGreaterThan(0)
    expect(kept.length).toBeLessThan(11)
    expect(kept.at(-1)!.content.startsWith('29 ')).toBe(true)
  })
  it('is empty where it cannot be read', () => {
    expect([null, '', '{', '7', '[{"content":1}]'].map((text) => restore(text))).toEqual([[], [], [], [], []])
  })
})

describe('a page as calls of the API', () => {
  it('quotes for a shell, and names the token without writing it', () => {
    expect(curlOf({ method: 'PUT', path: '/api/x', body: { a: "it's" }, version: 3 }, 'http://h', true)).toBe(
      `curl -X PUT 'http://h/api/x' \\\n  -H "Authorization: Bearer $PATCHBAY_TOKEN" \\\n  -H 'If-Match: "3"' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"a":"it'\\''s"}'`,
    )
    expect(curlOf({ path: '/api/x' }, 'http://h', false)).toBe("curl 'http://h/api/x'")
  })
})

describe('what a form amounts to in the file', () => {
  it('leaves out what has no value, and the identifier', () => {
    expect(inFile({ instanceId: 'a@b', name: 'a', baseUrl: 'http://b', weight: 1, enabled: true, tier: 0, path: '', headers: {} })).toEqual({ name: 'a', baseUrl: 'http://b' })
    expect(inFile({ name: 'a', weight: 0, enabled: false })).toEqual({ name: 'a', weight: 0, enabled: false })
  })
})

describe('usage of one name', () => {
  it('is read from the URL', () => {
    expect(parseOnly('byTenant~a~b')).toEqual({ by: 'byTenant', value: 'a~b' })
    expect([parseOnly(''), parseOnly('byTenant'), parseOnly('other~x')]).toEqual([null, null, null])
  })
})

describe('the beginning of a chart', () => {
  it('is that of the history if it is within the range', () => {
    const now = Date.parse('2026-11-18T12:00:00Z')
    expect((['5m', '1h', '24h'] as const).map((range) => beganWithin(range, now - 10 * 60_000, now))).toEqual([false, true, true])
    expect(beganWithin('24h', now - 25 * 3600_000, now)).toBe(false)
    expect(beganWithin('24h', Number.NaN, now)).toBe(false)
  })
})
