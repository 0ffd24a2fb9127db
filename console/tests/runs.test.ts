import { describe, expect, it } from 'vitest'
import { toCall, type Call } from '@/api/types'
import { runsPath, type Run } from '@/pages/runs/api'
import { lineOf } from '@/pages/runs/line'
import { metersOf, raisesOf } from '@/pages/runs/words'
import { readEnd } from '@/shell/run-finds'

const run = (given: Partial<Run> = {}): Run => ({
  id: 'run_1', name: 'nightly', sign: 'x-router-run', state: 'WAITING', started: '2026-11-18T09:00:00Z', last: '2026-11-18T09:10:00Z', underWay: 0, agents: 0, currency: 'USD',
  used: { cost: 4, tokens: 1000, requests: 9 }, reserved: {}, limits: { cost: 5 }, raised: {}, ...given,
})

describe('the meters of a run', () => {
  it('has its limits first, and counts what is reserved', () => {
    const [cost, ...others] = metersOf(run({ reserved: { cost: 0.5 } }), 0)
    expect(cost).toMatchObject({ unit: 'cost', used: 4, limit: 5, share: 0.9 })
    expect(others.map(({ unit }) => unit)).toEqual(['tokens', 'requests', 'time'])
  })

  it('counts the time until the last call, or until now while it runs', () => {
    const now = Date.parse('2026-11-18T09:30:00Z')
    const time = (given: Partial<Run>) => metersOf(run({ limits: { time: 3_600_000 }, ...given }), now)[0]
    expect(time({})).toMatchObject({ unit: 'time', used: 600_000 })
    expect(time({ state: 'RUNNING' })).toMatchObject({ unit: 'time', used: 1_800_000, share: 0.5 })
  })
})

describe('the amounts to raise a run by', () => {
  it('are of the size of its limit, or of what it used', () => {
    expect(raisesOf(run())).toEqual([5, 10, 25])
    expect(raisesOf(run({ limits: { cost: 0.03 } }))).toEqual([0.02, 0.04, 0.1])
    expect(raisesOf(run({ limits: {}, used: { cost: 12 } }))).toEqual([10, 20, 50])
    expect(raisesOf(run({ limits: {}, used: {} }))).toEqual([1, 2, 5])
  })
})

const call = (id: string, second: number, durationMs: number, more: Partial<Call> = {}): Call =>
  toCall({ requestId: id, time: new Date(Date.UTC(2026, 10, 18, 9, 0, second)).toISOString(), durationMs, outcome: 'answered', attempts: 1, streamed: true, timeToFirstTokenMs: 500, model: 'm', httpStatus: 200, ...more } as never)

describe('the line of a run', () => {
  it('numbers turns from the first of the run, and draws the wait and the answer', () => {
    const { turns, axis } = lineOf([call('b', 2, 2000), call('a', 0, 2000)], 7)
    expect(turns.map((turn) => [turn.call.requestId, turn.number])).toEqual([['a', 6], ['b', 7]])
    expect(turns[1]!.bars.map((bar) => [bar.kind, axis.place(bar.from), axis.place(bar.to)])).toEqual([['waiting', 0.5, 0.625], ['streaming', 0.625, 1]])
  })

  it('shortens pauses in which no call runs, and tells how long they were', () => {
    const { turns, axis, pauses } = lineOf([call('b', 602, 1000), call('a', 0, 2000)], 2)
    expect(pauses).toHaveLength(1)
    expect(pauses[0]!.ms).toBe(600_000)
    expect(axis.place(turns[1]!.bars[0]!.from)).toBeCloseTo(2150 / 3150)
  })

  it('draws calls of sub-agents beside each other, and a failure as one bar', () => {
    const { turns, axis, pauses } = lineOf([call('b', 1, 3000, { outcome: 'lost', httpStatus: 502 }), call('a', 0, 2000)], 2)
    expect(pauses).toEqual([])
    expect(turns[1]!.bars).toMatchObject([{ kind: 'failed' }])
    expect(axis.place(turns[1]!.bars[0]!.from)).toBeCloseTo(0.25)
    expect(lineOf([], 0).turns).toEqual([])
  })
})

describe('what leads to runs', () => {
  it('reads "end" and a name', () => {
    const t = ((key: string) => (key === 'runs.end' ? '终止' : key)) as never
    expect(readEnd('end Nightly', t)).toBe('nightly')
    expect(readEnd('终止nightly', t)).toBe('nightly')
    expect(readEnd('endless', t)).toBeNull()
    expect(readEnd('nightly', t)).toBeNull()
  })

  it('asks for runs without what is left out', () => {
    expect(runsPath({ search: '', sort: 'cost', size: 10 })).toBe('/api/runs?sort=cost&size=10')
  })
})
