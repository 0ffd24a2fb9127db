import { describe, expect, it } from 'vitest'
import type { Call } from '@/api/types'
import { countNew, filterCalls, logShare, rescuedFrom } from '@/pages/calls/filter'
import { axisOf, timelineOf } from '@/pages/calls/timeline'

const base: Call = {
  requestId: 'req_A', time: '2026-11-15T12:05:00.227Z', service: 'chat', door: 'chat', model: 'demo-flaky', instance: 'demo-flaky@http://b:1', status: 'success',
  httpStatus: 200, streamed: true, durationMs: 1200, attempts: 2,
  timeline: { receivedMs: 0.04, limiterMs: 0.07, queuedMs: 0, endMs: 1200, gatewayMs: 0.1, upstreamMs: 1199 },
  tries: [
    { handle: 'i-1', instance: 'demo-flaky@http://a:1', pickMs: 0.08, connectMs: 0.09, firstByteMs: 0.33, endMs: 0.4, errorCode: 'upstream_error', reusedConnection: true },
    { handle: 'i-1', instance: 'demo-flaky@http://b:1', pickMs: 0.41, connectMs: 0.42, firstByteMs: 2.43, endMs: 1200, reusedConnection: true },
  ],
}

describe('the timeline', () => {
  it('has a bar for each phase of each try, one after the other', () => {
    const timeline = timelineOf(base)
    expect(timeline.tries.map((attempt) => attempt.bars.map((bar) => `${bar.phase} ${bar.kind}`))).toEqual([
      ['pick gateway', 'firstByte failed', 'errorRead failed'],
      ['pick gateway', 'firstByte waiting', 'stream streaming'],
    ])
    const bars = [...timeline.gateway, ...timeline.tries.flatMap((attempt) => attempt.bars)]
    for (let i = 1; i < bars.length; i++) expect(bars[i]!.from).toBeGreaterThanOrEqual(bars[i - 1]!.to - 1e-9)
  })
  it('shows the wait for the first token apart where the stream began before', () => {
    const phases = (firstTokenMs: number) => timelineOf({ ...base, timeline: { ...base.timeline!, firstTokenMs } }).tries.map((attempt) => attempt.bars.map((bar) => `${bar.phase} ${bar.kind} ${bar.to}`))
    expect(phases(2.43)[1]).toEqual(['pick gateway 0.42', 'firstToken waiting 2.43', 'stream streaming 1200'])
    expect(phases(340)[1]).toEqual(['pick gateway 0.42', 'firstByte waiting 2.43', 'firstToken waiting 340', 'stream streaming 1200'])
    expect(phases(340)[0]).toEqual(['pick gateway 0.09', 'firstByte failed 0.33', 'errorRead failed 0.4'])
  })
  it('marks a queue that nobody waited in as not gone through', () => {
    expect(timelineOf(base).gateway[2]).toMatchObject({ phase: 'queue', present: false })
    expect(timelineOf({ ...base, timeline: { ...base.timeline, queuedMs: 5 } }).gateway[2]).toMatchObject({ present: true })
  })
  it('enlarges the first milliseconds of a long call', () => {
    const axis = axisOf(timelineOf(base))
    expect(axis.split).toBe(4)
    expect(axis.place(0.09)).toBeGreaterThan(0.009)
    expect(axis.place(1200)).toBeCloseTo(1)
    for (let ms = 0; ms < 1200; ms += 7) expect(axis.place(ms + 7)).toBeGreaterThanOrEqual(axis.place(ms))
  })
  it('does not split the axis of a short call', () => {
    expect(axisOf(timelineOf({ ...base, durationMs: 3, timeline: { ...base.timeline, endMs: 3 }, tries: [{ ...base.tries![1]!, endMs: 3 }] })).split).toBeNull()
  })
  it('shows a stream that broke off as streaming that failed', () => {
    const cut = timelineOf({ ...base, status: 'error', errorCode: 'upstream_stream_truncated', attempts: 1, tries: [{ ...base.tries![1]!, errorCode: 'upstream_stream_truncated' }] })
    expect(cut.tries[0]!.bars.map((bar) => `${bar.phase} ${bar.kind}`)).toEqual(['pick gateway', 'firstByte waiting', 'stream failed'])
  })
  it('shows a stream with which another instance went on as one that was sent until it broke', () => {
    const resumed = timelineOf({ ...base, resumed: 1, tries: [{ ...base.tries![0]!, errorCode: 'upstream_stream_truncated' }, { ...base.tries![1]!, resumed: 'continued' }] })
    expect(resumed.tries.map((attempt) => attempt.bars.map((bar) => `${bar.phase} ${bar.kind}`))).toEqual([
      ['pick gateway', 'firstByte waiting', 'stream failed'],
      ['pick gateway', 'firstByte waiting', 'stream streaming'],
    ])
  })
  it('shows calls that ran beside each other where they were', () => {
    const pieces = timelineOf({ ...base, streamed: false, pieces: 2, tries: [{ ...base.tries![0]!, errorCode: undefined, endMs: 900 }, { ...base.tries![1]!, pickMs: 0.08, connectMs: 0.1 }] })
    expect(pieces.tries[1]!.bars[0]).toMatchObject({ phase: 'pick', from: 0.08, to: 0.1 })
  })
  it('has no tries when nothing was asked', () => {
    expect(timelineOf({ ...base, tries: [] }).tries).toEqual([])
  })
})

describe('the filter', () => {
  const all = Array.from({ length: 10_000 }, (_, i): Call => ({ ...base, tries: [], requestId: `req_${i}`, durationMs: i % 100, status: i % 10 === 0 ? 'error' : 'success', errorCode: i % 10 === 0 ? 'upstream_error' : undefined }))
  const none = { q: '', show: 'all', service: '', model: '' } as const
  it('leaves the list alone without a filter', () => {
    expect(filterCalls(all, none)).toBe(all)
  })
  it('finds by id, state and service', () => {
    expect(filterCalls(all, { ...none, q: 'REQ_1234' })).toHaveLength(1)
    expect(filterCalls(all, { ...none, show: 'failed' })).toHaveLength(1000)
    expect(filterCalls(all, { ...none, service: 'tts' })).toHaveLength(0)
    expect(filterCalls(all, { ...none, q: 'upstream_error', model: 'demo-flaky' })).toHaveLength(1000)
  })
  it('finds calls by the failed tries before the one that answered', () => {
    expect(filterCalls([base, ...all], { ...none, q: 'upstream_error' })).toHaveLength(1001)
    expect(filterCalls([base, ...all], { ...none, q: 'http://a:1' })).toHaveLength(1)
  })
  it('takes the slowest twentieth as slow', () => {
    const slow = filterCalls(all, { ...none, show: 'slow' })
    expect(slow.length).toBeGreaterThan(300)
    expect(slow.length).toBeLessThan(800)
  })
  it('draws durations from a tenth of a millisecond to 100 seconds', () => {
    expect(logShare(0)).toBeCloseTo(0.02)
    expect(logShare(100_000)).toBeCloseTo(1)
    expect(logShare(100)).toBeCloseTo(0.5)
  })
})

describe('calls that came while the list was held', () => {
  const filter = { q: '', show: 'all', service: '', model: '' } as const
  const call = (requestId: string, model: string, attempts = 1): Call => ({ ...base, requestId, model, attempts, tries: [base.tries![1]!] })
  const held = [call('2', 'a'), call('1', 'b')]
  const calls = [call('5', 'a', 2), call('4', 'b'), call('3', 'a'), ...held]
  it('are counted where the filter shows them', () => {
    expect(countNew(calls, held, filter)).toBe(3)
    expect(countNew(calls, held, { ...filter, model: 'a' })).toBe(2)
    expect(countNew(calls, held, { ...filter, q: 'nowhere' })).toBe(0)
    expect(countNew(calls, held, { ...filter, show: 'troubled' })).toBe(1)
    expect(countNew(held, held, filter)).toBe(0)
  })
  it('are all of them where nothing was held, or where it is forgotten', () => {
    expect(countNew(calls, [], filter)).toBe(5)
    expect(countNew(calls, [call('0', 'a')], filter)).toBe(5)
  })
})

describe('a call that a second try rescued', () => {
  it('names the instance that failed first', () => {
    expect(rescuedFrom(base)).toEqual(['demo-flaky@http://a:1'])
    expect(rescuedFrom({ ...base, tries: [base.tries![1]!] })).toEqual([])
    expect(rescuedFrom({ ...base, status: 'error', httpStatus: 502, errorCode: 'upstream_error' })).toEqual([])
  })
})
