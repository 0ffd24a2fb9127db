import { describe, expect, it } from 'vitest'
import type { Call } from '@/api/types'
import { summarise } from '@/live/stats'
import { LiveStore, maxCalls } from '@/live/store'
import type { Sink, Source } from '@/live/types'

let now = 1_000_000_000_000
class Hand implements Source {
  sink!: Sink
  start(sink: Sink) {
    this.sink = sink
    return () => undefined
  }
}

let serial = 0
function call(change: Partial<Call> = {}): Call {
  return {
    requestId: `req_${serial++}`, time: new Date(now - 10).toISOString(), service: 'chat', door: 'chat', model: 'm', instance: 'm@http://h:1', status: 'success', outcome: 'answered',
    httpStatus: 200, streamed: true, durationMs: 10, timeToFirstTokenMs: 2, attempts: 1, usage: { promptTokens: 1, completionTokens: 4, totalTokens: 5 },
    timeline: { receivedMs: 0, queuedMs: 0, upstreamMs: 9, endMs: 10, gatewayMs: 0.1 }, tries: [{ handle: 'i-1', instance: 'm@http://h:1', pickMs: 0, endMs: 10, reusedConnection: false }], ...change,
  }
}

function open() {
  const source = new Hand()
  const store = new LiveStore(source, () => now)
  store.start()
  const push = (...calls: Call[]) => {
    store.snapshot({ time: now, version: 1, instances: [] })
    source.sink.calls({ calls, capacity: 1000, samplingRate: 1 })
  }
  return { source, store, push }
}

describe('the live store', () => {
  it('counts each call once, however often it is told of it', () => {
    const { store, push } = open()
    const one = call()
    push(one)
    push(call(), one)
    expect(store.get().calls).toHaveLength(2)
  })

  it('knows of the time since the first call that it was told of, also where that comes later', () => {
    const { store, push } = open()
    push()
    push(call(), call({ time: new Date(now - 20_010).toISOString() }))
    expect(store.watched(60)).toBe(20)
  })

  it('says how old its data are while it is cut off', () => {
    const { source, store, push } = open()
    push(call())
    now += 1000
    source.sink.failed(new Error('refused'), 1000)
    expect(store.get().connection.kind).toBe('reconnecting')
    now += 2000
    store.age()
    expect(store.get().connection).toMatchObject({ kind: 'stale' })
    now += 3000
    source.sink.failed(new Error('refused'), 1000)
    expect(store.get().connection).toMatchObject({ kind: 'stale' })
    now += 24_000
    const later = Array.from({ length: 1000 }, () => call())
    push(...later)
    expect(store.get().connection.kind).toBe('live')
  })

  it('keeps memory flat over an hour of snapshots', () => {
    const { store, push } = open()
    for (let second = 0; second < 3600; second++) {
      now += 1000
      push(call(), call(), call(), call(), call())
    }
    expect(store.get().calls).toHaveLength(maxCalls)
    expect((store as unknown as { seen: Set<string> }).seen.size).toBeLessThanOrEqual(maxCalls * 2 + 5)
  })
})

describe('readings', () => {
  it('count each try at its own instance', () => {
    const twice = call({ attempts: 2, instance: 'm@http://b:1', tries: [{ handle: 'i-1', instance: 'm@http://a:1', pickMs: 0, endMs: 1, errorCode: 'upstream_error', reusedConnection: false }, { handle: 'i-1', instance: 'm@http://b:1', pickMs: 1, endMs: 10, reusedConnection: false }] })
    const stats = summarise([twice], 60, 60, now)
    expect(stats.models.get('chat m')).toMatchObject({ requests: 1, errors: 0 })
    expect(stats.instances.get('chat m@http://a:1')).toMatchObject({ requests: 1, errors: 1 })
    expect(stats.instances.get('chat m@http://b:1')).toMatchObject({ requests: 1, errors: 0 })
  })
  it('divide by the time that was watched', () => {
    expect(summarise([call(), call()], 60, 4, now).total.rate).toBe(0.5)
  })
  it('tell refusals from errors', () => {
    const limited = call({ status: 'rate_limited' as Call['status'], outcome: 'refused', httpStatus: 429, errorCode: 'rate_limit_exceeded' as Call['errorCode'], tries: [] })
    const failed = call({ status: 'failed' as Call['status'], outcome: 'lost', httpStatus: 502, errorCode: 'upstream_error' as Call['errorCode'], tries: [] })
    expect(summarise([limited, failed, call(), call()], 60, 60, now).services.get('chat')).toMatchObject({ requests: 4, errors: 1, errorRate: 0.25 })
  })
  it('do not blame anybody when the caller goes away', () => {
    const gone = call({ status: 'success', outcome: 'gone', httpStatus: 499, clientGone: true })
    expect(summarise([gone], 60, 60, now).total.errors).toBe(0)
  })
})
