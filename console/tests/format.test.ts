import { describe, expect, it } from 'vitest'
import { ago, axis, digits, duration, host, niceMax, overhead, percent, quantile, rate, shorten, since, span, splitId, tail, text } from '@/lib/format'

describe('durations', () => {
  it.each([
    [null, '–'], [undefined, '–'], [Number.NaN, '–'], [0, '0 ms'], [0.05, '50 µs'], [0.42, '0.42 ms'], [12.4, '12.4 ms'],
    [474.2, '474 ms'], [1311, '1.31 s'], [31_000, '31.0 s'], [150_000, '2.5 min'], [7_200_000, '2.0 h'],
  ])('%s is %s', (value, want) => expect(text(duration(value))).toBe(want))

  it('shows the gateway in microseconds', () => {
    expect(text(overhead(0.112))).toBe('112 µs')
    expect(text(overhead(1.5))).toBe('1.5 ms')
  })
})

describe('numbers', () => {
  it('have at most three significant digits', () => {
    expect([0, 0.123, 1.236, 18.14, 426.4, 12_345].map((n) => digits(n))).toEqual(['0', '0.12', '1.24', '18.1', '426', '12,345'])
  })
  it('have a fixed shape in columns', () => {
    expect([0, 0.03, 0.44, 9, 88.04, 1234, null].map((n) => rate(n))).toEqual(['0.0', '0.03', '0.4', '9.0', '88.0', '1,234', '–'])
    expect([0, 0.334, 1, 0.9999, null].map((n) => percent(n))).toEqual(['0.0 %', '33.4 %', '100 %', '100 %', '–'])
    expect(percent(0.5, 0)).toBe('50 %')
  })
  it('say no more on an axis than they must', () => {
    expect([1600, 4000, 100, 0.5].map((ms) => axis(duration(ms)))).toEqual(['1.6 s', '4 s', '100 ms', '0.5 ms'])
  })
  it('snap the top of an axis', () => {
    expect([0, 1, 1.1, 18, 25, 426, 0.11].map(niceMax)).toEqual([1, 1, 1.2, 24, 40, 600, 0.12])
  })
  it('have quantiles', () => {
    expect(quantile([], 0.95)).toBeNull()
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2)
    expect(quantile(Array.from({ length: 100 }, (_, i) => i + 1), 0.95)).toBe(95)
  })
})

describe('names', () => {
  it('keep their tails', () => {
    expect(shorten('deepseek-r1-distill-qwen-32b-awq', 24).endsWith('32b-awq')).toBe(true)
    expect([...shorten('模'.repeat(40), 10)].length).toBe(10)
    expect(shorten('short')).toBe('short')
  })
  it('lose their middle, not their tail', () => {
    expect(tail('deepseek-r1-distill-qwen-32b-awq')).toEqual(['deepseek-r1-distill-qwen-', '32b-awq'])
    expect(tail('demo-chat')).toEqual(['demo-chat', ''])
    expect(tail('gpu-07.internal:8000')).toEqual(['gpu-07.internal', ':8000'])
  })
  it('are split from addresses', () => {
    expect(splitId('demo@v1@http://127.0.0.1:9/x')).toEqual({ model: 'demo@v1', url: 'http://127.0.0.1:9/x', host: '127.0.0.1:9' })
    expect(splitId('plain')).toEqual({ model: 'plain', url: '', host: '' })
    expect(host('not a url')).toBe('not a url')
  })
  it('say how long ago', () => {
    const now = Date.parse('2026-01-01T00:01:00Z')
    expect(ago(now - 9000, now, 'en')).toBe('9 s ago')
    expect(ago(now - 720_000, now, 'zh')).toContain('12')
    expect(ago('nonsense', now, 'en')).toBe('–')
  })
  it('say how long, without decimals and in the language of the page', () => {
    expect([300, 26_100, 660_000, 5_400_000].map((ms) => span(ms, 'en'))).toEqual(['1 s', '26 s', '11 min', '2 h'])
    expect(span(660_000, 'zh-CN')).toBe('11 分钟')
    expect(since(0, 26_100, 'zh-CN')).toMatch(/^26 秒/)
  })
})
