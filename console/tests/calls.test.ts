import { describe, expect, it } from 'vitest'
import type { Call } from '@/api/types'
import { translate } from '@/i18n'
import { en } from '@/i18n/en'
import { titleOf } from '@/pages/calls/drawer'
import { backendWords, logShare, nearName, rescuedFrom } from '@/pages/calls/rows'
import { pageSize, questionOf, runningQuestion, searchKey, withNew, type Found } from '@/pages/calls/search'
import { axisOf, timelineOf } from '@/pages/calls/timeline'

const base: Call = {
  requestId: 'req_A', time: '2026-11-15T12:05:00.227Z', service: 'chat', door: 'chat', model: 'demo-flaky', instance: 'demo-flaky@http://b:1', status: 'success', outcome: 'rescued',
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
  it('shows the time in which the model was loaded apart', () => {
    const held = timelineOf({ ...base, attempts: 1, timeline: { ...base.timeline, queuedMs: 900, heldMs: 800 }, tries: [{ ...base.tries![1]!, pickMs: 0.08, connectMs: 900.2, firstByteMs: 1000 }] })
    expect(held.gateway.slice(2).map((bar) => `${bar.phase} ${bar.from.toFixed(0)} ${bar.to.toFixed(0)}`)).toEqual(['queue 0 100', 'load 100 900'])
    expect(held.tries[0]!.bars[0]!.from).toBeCloseTo(900.07)
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

describe('the question to the gateway', () => {
  const now = Date.parse('2026-11-17T12:00:00Z')
  it('has what the address says, and nothing else', () => {
    expect(questionOf({}, now)).toEqual({})
    expect(questionOf({ call: 'req_1', show: 'all', q: ' ' }, now)).toEqual({})
    expect(questionOf({ q: 'llama', errorText: ' loading ' }, now)).toEqual({ q: 'llama', errorText: 'loading' })
    expect(questionOf({ q: ' loading ', show: 'refused', tenant: 'acme', asked: 'gpt-5o', httpStatus: '429', min: '1500' }, now)).toEqual({ q: 'loading', outcome: 'refused', tenant: 'acme', asked: 'gpt-5o', httpStatus: '429', minDurationMs: '1500' })
    expect(questionOf({ show: 'nonsense', min: 'x', span: 'y', from: 'z' }, now)).toEqual({})
  })
  it('counts a span of time from now, and takes a range as it is', () => {
    expect(questionOf({ span: '1h' }, now)).toEqual({ from: '2026-11-17T11:00:00.000Z' })
    expect(questionOf({ from: '2026-11-16T00:00:00Z', to: '2026-11-17T00:00:00Z' }, now)).toEqual({ from: '2026-11-16T00:00:00.000Z', to: '2026-11-17T00:00:00.000Z' })
  })
  it('asks for running requests by names only', () => {
    expect(runningQuestion({ show: 'running', q: ' bot ', tenant: 'acme', errorText: 'loading', span: '1h', httpStatus: '503' })).toEqual({ q: 'bot', tenant: 'acme' })
  })
  it('is another one only where the search changes', () => {
    expect(searchKey({ call: 'a', tenant: 'x' })).toBe(searchKey({ call: 'b', tenant: 'x' }))
    expect(searchKey({ tenant: 'x' })).not.toBe(searchKey({ tenant: 'y' }))
    expect(searchKey({ errorText: 'x' })).not.toBe(searchKey({ errorText: 'y' }))
  })
  it('has the words of a backend without what they come with', () => {
    const sentence = (code: string, values: Record<string, string>) => ({ code, values, text: '' })
    expect(backendWords({ said: [sentence('call.status_said', { status: '503', words: 'model is loading' })] } as never)).toBe('model is loading')
    expect(backendWords({ said: [sentence('call.status', { status: '503' })] } as never)).toBeUndefined()
    expect(backendWords({} as never)).toBeUndefined()
  })
  it('draws durations from a tenth of a millisecond to 100 seconds', () => {
    expect(logShare(0)).toBeCloseTo(0.02)
    expect(logShare(100_000)).toBeCloseTo(1)
    expect(logShare(100)).toBeCloseTo(0.5)
  })
})

describe('new calls', () => {
  const call = (requestId: string): Call => ({ ...base, requestId })
  const found: Found = { rows: [call('2'), call('1')], fresh: [], next: 'c', reached: undefined, capacity: 1000, fileDays: 0, samplingRate: 1, isLoading: false, isLoaded: true, error: null }
  const ids = (list: readonly Call[]) => list.map((one) => one.requestId).join(' ')
  it('come on top', () => {
    expect(ids(withNew(found, { rows: [call('4'), call('3')] }, false).rows)).toBe('4 3 2 1')
  })
  it('wait while the list is held, and come in order', () => {
    const held = withNew(withNew(found, { rows: [call('3')] }, true), { rows: [call('4')] }, true)
    expect([ids(held.rows), ids(held.fresh)]).toEqual(['2 1', '4 3'])
    expect(ids(withNew(held, { rows: [call('5')] }, false).rows)).toBe('5 4 3 2 1')
  })
  it('begin the list anew where there are more than a page', () => {
    const many = Array.from({ length: pageSize }, (_, i) => call(`n${i}`))
    const anew = withNew(found, { rows: many, next: 'd' }, false)
    expect([anew.rows.length, anew.next]).toEqual([pageSize, 'd'])
  })
})

describe('a call that a second try rescued', () => {
  it('names the instance that failed first', () => {
    expect(rescuedFrom(base)).toEqual(['demo-flaky@http://a:1'])
    expect(rescuedFrom({ ...base, tries: [base.tries![1]!] })).toEqual([])
    expect(rescuedFrom({ ...base, status: 'error', outcome: 'lost', httpStatus: 502, errorCode: 'upstream_error' })).toEqual([])
  })
})

describe('the head of a call', () => {
  it('tells a budget from a limit', () => {
    const head = (errorCode: string) => titleOf({ ...base, status: 'error', outcome: 'refused', httpStatus: 429, errorCode } as Call, (key, values) => translate(en, key, values))
    expect(['budget_exceeded', 'budget_reserved', 'rate_limit_exceeded', 'key_rate_limited'].map(head)).toEqual(['Out of budget', 'Out of budget', 'Over the limit', 'Over the limit'])
  })
})

describe('the name that may have been meant', () => {
  it('is alike: a third of its letters differ at most, or it begins alike', () => {
    expect(nearName('gpt-5o', '"chat-fast", "deepseek-r1"')).toBeUndefined()
    expect(nearName('gpt-5o', '"chat-fast", "gpt-4.1-mini"')).toBe('gpt-4.1-mini')
    expect(nearName('demo-chut', '"demo-chat"')).toBe('demo-chat')
    expect(nearName('hcat-fsat', '"chat-fast"')).toBeUndefined() // four of nine
    expect(nearName('xhat-fast', '"chat-fast"')).toBe('chat-fast')
    expect(nearName('a', '"b"')).toBeUndefined()
    expect(nearName('gpt-5o', '')).toBeUndefined()
  })
})
