import { describe, expect, it } from 'vitest'
import type { Call, Figure, LiveHistory, LiveWindow } from '@/api/types'
import { duration, text } from '@/lib/format'
import { byHost, few, shown } from '@/live/figures'
import { leading, toRates, withTimes } from '@/live/history'
import { empty, summarise, toStat, wholeStats } from '@/live/stats'

/** What a reader takes a text for, in milliseconds. */
function read(shown: string): number {
  const [value, unit] = shown.split(' ')
  return Number(value) * { µs: 0.001, ms: 1, s: 1000, min: 60_000, h: 3_600_000 }[unit!]!
}

/** As the gateway tells a time: the middle of its bucket, whose bounds are at most 5 % apart. */
const told = (ms: number, off: number) => ms * (1 + off)

const quantiles = (ms: number, off: number, count: number) => ({ p50: told(ms, off), p95: told(ms, off), p99: told(ms, off), count })

// The times of the known traffic, from the shortest to the longest, in milliseconds.
const known = [0.02, 0.11, 0.3, 0.45, 1.04, 4.7, 12.4, 21, 28, 34, 60.9, 63.5, 97, 250, 978, 1070, 1505, 2420, 6000, 20_070, 61_000, 95_000, 150_000, 600_000]

describe('known times', () => {
  it.each(known)('%s ms is read within 5 % of it wherever it is shown', (ms) => {
    for (const off of [-0.024, 0, 0.024]) {
      const near = (text: string) => expect(Math.abs(read(text) / ms - 1)).toBeLessThan(0.05)
      const figure = { service: 'chat', latency: quantiles(ms, off, 40), ttft: quantiles(ms, off, 40), perToken: quantiles(ms, off, 40) } as unknown as Figure
      for (const name of ['latency', 'ttft', 'perToken'] as const) {
        const { p50, p95, p99, n } = shown(figure, name)!
        for (const one of [p50, p95, p99]) near(one)
        expect(n).toBe(40)
      }
      const window = { requests: 40, errors: 2, tokensIn: 1, tokensOut: 1, latency: quantiles(ms, off, 40), ttft: quantiles(ms, off, 40) } as unknown as LiveWindow
      near(text(duration(toStat(window, 60).p95)))
      near(text(duration(toStat(window, 60).firstToken)))
    }
  })
  it('are those of the calls where the gateway does not count', () => {
    const call = (service: string, durationMs: number) => ({ service, model: 'm', instance: '', status: 'success', durationMs, time: new Date(1_770_000_000_000 - durationMs).toISOString(), tries: [] }) as unknown as Call
    const calls = [...Array.from({ length: 19 }, () => call('chat', 978)), call('chat', 1505), call('embedding', 0.3)]
    const { services, total } = summarise(calls, 60, 60, 1_770_000_000_000)
    expect(services.get('chat')!.p95).toBeGreaterThan(970)
    expect(services.get('embedding')!.p95).toBe(0.3)
    expect([total.requests, total.p95, total.firstToken]).toEqual([21, null, null])
    expect(summarise(calls.slice(0, 20), 60, 60, 1_770_000_000_000).total.p95).toBe(services.get('chat')!.p95)
  })
})

describe('figures of few requests', () => {
  it('tell how many, and nothing where there are none', () => {
    const figure = { service: 'chat', latency: quantiles(5, 0, 3), tokensPerSecond: { p50: 101.3, p95: 23.5, p99: 23.5, count: 3 } } as unknown as Figure
    expect(shown(figure, 'latency')).toEqual({ p50: '5 ms', p95: '5 ms', p99: '5 ms', n: 3 })
    expect(shown(figure, 'tokensPerSecond')).toEqual({ p50: '101', p95: '23.5', p99: '23.5', n: 3 })
    expect(shown(figure, 'ttft')).toBeNull()
    expect(few).toBeGreaterThan(3)
  })
})

describe('services', () => {
  it('are never mixed in one figure', () => {
    const figures = [{ service: 'chat', host: 'a:1', latency: quantiles(1505, 0, 40) }, { service: 'embedding', host: 'a:1', latency: quantiles(0.3, 0, 40) }, { service: 'chat', host: 'b:1' }] as unknown as Figure[]
    expect(byHost(figures)).toEqual(new Map([['a:1', [{ service: 'chat', p95: '1.50 s' }, { service: 'embedding', p95: '0.3 ms' }]]]))
  })
  it('are shown one at a time, chat first, else the busiest', () => {
    const stat = (requests: number, p95: number | null) => ({ ...empty, requests, p95 })
    expect(leading(new Map([['embedding', stat(90, 1)], ['chat', stat(2, 3)]]))).toBe('chat')
    expect(leading(new Map([['rerank', stat(1, 1)], ['embedding', stat(90, 1)], ['chat', stat(3, null)]]))).toBe('embedding')
    expect(leading(new Map())).toBeUndefined()
  })
  it('give their times to counts that were asked for a second earlier', () => {
    const reply = (from: number, p95: (number | null)[]) => ({ startedAt: '', range: '5m', stepSeconds: 1, from: new Date(from * 1000).toISOString(), points: 3, watched: [1, 1, 1], omitted: 0, series: [{ requests: { answered: [1, 1, 1] }, latency: { p50: p95, p95 } }] }) as unknown as LiveHistory
    expect(withTimes(toRates(reply(100, [7, 7, 7])), toRates(reply(101, [1505, null, 9]))).p95).toEqual([null, 1505, null])
    expect(withTimes(toRates(reply(100, [7, 7, 7])), undefined).p95).toEqual([null, null, null])
  })
  it('have the figures of a range as the gateway tells them', () => {
    const of = (one: object) => ({ watched: [60], series: [{ ...one, whole: { requests: 40, errors: 2, latency: quantiles(1505, 0.01, 40) } }] }) as unknown as LiveHistory
    const stats = wholeStats({ total: of({}), service: of({ service: 'chat' }), model: of({ service: 'chat', model: 'm' }), instance: of({ service: 'chat', instanceId: 'm@http://a:1' }) })
    expect([stats.services.get('chat')!.p95, stats.models.get('chat m')!.p95, stats.instances.get('chat m@http://a:1')!.p95]).toEqual([1520.05, 1520.05, 1520.05])
  })
})
