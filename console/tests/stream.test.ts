import { afterEach, describe, expect, it, vi } from 'vitest'
import type { LiveHistory, LiveSnapshot } from '@/api/types'
import { Seconds, smooth, smoothed, toRates, toSeries, unknown } from '@/live/history'
import { wholeStats } from '@/live/stats'
import { Feed, StreamSource, toSnapshot } from '@/live/stream'
import type { CallBatch, Sink, Snapshot } from '@/live/types'

const window = { requests: 0, errors: 0, tokensIn: 0, tokensOut: 0 }
const activity = (answered: number) => ({
  requests: { answered, failed: 0, breakerOpen: 0, limited: 0, rejected: 0 }, tokensIn: answered * 2, tokensOut: answered * 3,
  lastSecond: { ...window, requests: 1, latency: { p50: 5, p95: 9 } }, lastMinute: { ...window, requests: 6, errors: 3, latency: { p50: 5, p95: 9 } },
})
const live = (second: number, answered: number, startedAt = '2026-01-01T00:00:00Z') =>
  ({
    time: new Date(1_770_000_000_000 + second * 1000).toISOString(), startedAt, configVersion: 4, degradation: 'NORMAL', samplingRate: 1, total: activity(answered),
    services: [{ service: 'chat', ...activity(answered), inFlight: 0, queueLength: 0, rateLimitRemaining: null }],
    models: [{ service: 'chat', model: 'm', ...activity(answered), inFlight: 0, queueLength: 0 }],
    instances: [
      {
        service: 'chat', model: 'm', id: 'm@http://a:1', handle: 'i-1', url: 'http://a:1', adapter: 'VLLM', ...activity(answered), health: 'HEALTHY', enabled: true, weight: 1, inFlight: 0,
        breaker: { state: 'CLOSED', failureCount: 0 },
      },
    ],
  }) as unknown as LiveSnapshot

function sink() {
  const seen = { snapshots: [] as Snapshot[], batches: [] as CallBatch[] }
  const to: Sink = { snapshot: (snapshot) => seen.snapshots.push(snapshot), calls: (batch) => seen.batches.push(batch), failed: () => undefined }
  return { seen, to }
}

describe('the feed of the live connection', () => {
  it('hands on the calls of a second, newest first', () => {
    const { seen, to } = sink()
    const feed = new Feed(to)
    feed.take('call', { requestId: 'a' })
    feed.take('call', { requestId: 'b' })
    feed.take('snapshot', live(1, 1))
    feed.take('dropped', { topic: 'call', count: 12 })
    feed.take('snapshot', live(2, 1))
    feed.take('snapshot', live(3, 1))
    expect(seen.batches.map((batch) => batch.calls.map((call) => call.requestId))).toEqual([['b', 'a'], [], []])
  })
  it('shows a breaker that opens at once, before the next snapshot', () => {
    const { seen, to } = sink()
    const feed = new Feed(to)
    feed.take('snapshot', live(1, 1))
    feed.take('change', { kind: 'breaker', service: 'chat', instanceId: 'm@http://a:1', from: 'CLOSED', to: 'OPEN', time: '2026-01-01T00:00:10Z' })
    expect(seen.snapshots.map((snapshot) => snapshot.instances[0]!.breaker)).toEqual(['CLOSED', 'OPEN'])
  })
  it('counts the time in a state from its own beginning, before the next snapshot too', () => {
    const { seen, to } = sink()
    const feed = new Feed(to)
    const first = live(1, 1)
    Object.assign(first.instances[0]!.breaker, { state: 'OPEN', stateSince: '2026-01-01T00:00:00Z', successCount: 2, timeout: 10_000, nextRetry: '2026-01-01T00:00:10Z' })
    feed.take('snapshot', first)
    feed.take('change', { kind: 'breaker', service: 'chat', instanceId: 'm@http://a:1', from: 'OPEN', to: 'HALF_OPEN', time: '2026-01-01T00:00:12Z' })
    expect(seen.snapshots[1]!.instances[0]).toMatchObject({ breaker: 'HALF_OPEN', stateSince: Date.parse('2026-01-01T00:00:12Z'), successes: 0, nextRetry: null })
    feed.take('change', { kind: 'breaker', service: 'chat', instanceId: 'm@http://a:1', from: 'HALF_OPEN', to: 'OPEN', time: '2026-01-01T00:00:13Z' })
    expect(seen.snapshots[2]!.instances[0]).toMatchObject({ breaker: 'OPEN', stateSince: Date.parse('2026-01-01T00:00:13Z'), nextRetry: Date.parse('2026-01-01T00:00:23Z') })
  })
  it('takes the readings of the last minute from the gateway', () => {
    const { stats, version } = toSnapshot(live(1, 1))
    expect(version).toBe(4)
    expect(stats?.instances.get('chat m@http://a:1')).toMatchObject({ requests: 6, rate: 0.1, errorRate: 0.5, p95: 9 })
  })
  it('divides them by the time since the start, where that is less than a minute', () => {
    expect(toSnapshot(live(12, 6, new Date(1_770_000_000_000).toISOString())).stats?.total.rate).toBe(0.5)
  })
})

const reply = (values: (number | null)[]) =>
  ({
    startedAt: '2026-01-01T00:00:00Z', range: '5m', stepSeconds: 1, from: new Date(1_770_000_000_000 - values.length * 1000).toISOString(), points: values.length, watched: values.map((value) => (value === null ? 0 : 1)), omitted: 0,
    series: [{ requests: { answered: values, failed: values, breakerOpen: values, limited: values, rejected: values }, latency: { p50: values, p95: values } }],
  }) as unknown as LiveHistory

describe('the charts', () => {
  it('keep gaps: what was not watched is not zero', () => {
    expect(smooth([null, 2, 4, null, 6], 5)).toEqual([null, 2, 3, null, 6])
    expect(toSeries(reply([null, 2, null])).p95).toEqual([null, 2, null])
  })
  it('go on each second with the difference of two snapshots', () => {
    const seconds = new Seconds()
    for (const [second, answered] of [[0, 100], [1, 103], [2, 107]] as const) seconds.add(toSnapshot(live(second, answered)))
    const series = seconds.extend(toRates(reply([1, 1, 1])), 1_770_000_002_000)
    expect(series.times).toHaveLength(3)
    expect(series.answered.slice(1)).toEqual([3, 4])
    expect(series.tokensOut.slice(1)).toEqual([9, 12])
    expect(series.p95.slice(1)).toEqual([9, 9])
  })
  it('go on with the mean of the seconds before, also of those that the gateway told', () => {
    const seconds = new Seconds()
    for (const [second, answered] of [[0, 100], [1, 107]] as const) seconds.add(toSnapshot(live(second, answered)))
    expect(smoothed(seconds.extend(toRates(reply([2, 2, 2, 2, 2, 2])), 1_770_000_001_000)).answered.at(-1)).toBe(3)
  })
  it('divide the point that has not ended by the time that it covers', () => {
    const day = { ...reply([null, 40, 600, 60]), range: '24h', stepSeconds: 300, watched: [0, 20, 300, 30] } as LiveHistory
    expect(toSeries(day).answered).toEqual([null, 2, 2, 2])
  })
  it('know nothing before the gateway has told', () => {
    const { times, answered } = unknown('1h', 1_770_000_002_000)
    expect([times.length, times[1]! - times[0]!, times.at(-1), new Set(answered)]).toEqual([240, 15, 1_769_999_985, new Set([null])])
  })
  it('have a gap where the gateway was restarted or did not answer', () => {
    const seconds = new Seconds()
    for (const snapshot of [live(0, 100), live(1, 103), live(4, 200), live(5, 1, '2026-02-02T00:00:00Z'), live(6, 3, '2026-02-02T00:00:00Z')]) seconds.add(toSnapshot(snapshot))
    expect(seconds.extend(toRates(reply([1, 1, 1, 1, 1, 1, 1])), 1_770_000_006_000).answered.slice(1)).toEqual([3, null, null, null, null, 2])
  })
})

describe('the readings of a long range', () => {
  const counted = (one: object) => ({ ...reply([]), range: '24h', stepSeconds: 300, watched: [0, 20, 300, 80], series: [{ ...one, whole: { ...window, requests: 800, errors: 160, latency: { p50: 5, p95: 9 } } }] }) as unknown as LiveHistory
  const stats = wholeStats({ total: counted({}), service: counted({ service: 'chat' }), model: counted({ service: 'chat', model: 'm' }), instance: counted({ service: 'chat', model: 'm', instanceId: 'm@http://a:1' }) })
  it('are what the gateway counted, by the time in which it did', () => {
    const want = { requests: 800, errors: 160, rate: 2, errorRate: 0.2, p95: 9, firstToken: null }
    expect([stats.total, stats.services.get('chat'), stats.models.get('chat m'), stats.instances.get('chat m@http://a:1')]).toEqual([want, want, want, want])
  })
})

describe('the live connection', () => {
  afterEach(() => {
    vi.useRealTimers()
    vi.unstubAllGlobals()
  })
  /** A gateway whose live feed is written by hand, and whose other replies are empty. */
  function gateway() {
    const feeds: ReadableStreamDefaultController<Uint8Array>[] = []
    const asked: string[] = []
    vi.stubGlobal('fetch', (input: string | Request, init?: RequestInit) => {
      const url = typeof input === 'string' ? input : input.url
      asked.push(url)
      if (!url.startsWith('/api/monitoring/live')) return new Promise(() => undefined)
      return Promise.resolve(new Response(new ReadableStream({ start: (controller) => follow(controller, init?.signal) }), { headers: { 'content-type': 'text/event-stream' } }))
    })
    const follow = (controller: ReadableStreamDefaultController<Uint8Array>, signal?: AbortSignal | null) => {
      feeds.push(controller)
      signal?.addEventListener('abort', () => controller.error(new Error('aborted')))
    }
    const send = (n: number, snapshot: LiveSnapshot) => feeds[n]!.enqueue(new TextEncoder().encode(`event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`))
    return { feeds, asked, send }
  }
  it('may begin slowly, and is dead when it falls silent after that', async () => {
    vi.useFakeTimers()
    const { feeds, send } = gateway()
    const { seen, to } = sink()
    let failed = 0
    const stop = new StreamSource().start({ ...to, failed: () => failed++ })
    await vi.advanceTimersByTimeAsync(10_000)
    expect([feeds.length, failed]).toEqual([1, 0])
    send(0, live(1, 1))
    await vi.advanceTimersByTimeAsync(100)
    expect(seen.snapshots).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(3600)
    expect(failed).toBe(1)
    await vi.advanceTimersByTimeAsync(1100)
    expect(feeds).toHaveLength(2)
    stop()
  })
  it('is not given up because the tab itself did not run', async () => {
    vi.useFakeTimers()
    const { feeds, send } = gateway()
    const { seen, to } = sink()
    let failed = 0
    const stop = new StreamSource().start({ ...to, failed: () => failed++ })
    await vi.advanceTimersByTimeAsync(0)
    send(0, live(1, 1))
    await vi.advanceTimersByTimeAsync(0)
    vi.setSystemTime(Date.now() + 60_000) // the timer will be late
    await vi.advanceTimersByTimeAsync(3500)
    send(0, live(62, 1))
    await vi.advanceTimersByTimeAsync(100)
    expect([feeds.length, failed, seen.snapshots.length]).toEqual([1, 0, 2])
    stop()
  })
})
