import { describe, expect, it } from 'vitest'
import type { ProblemGroup } from '@/api/types'
import { sumOf } from '@/pages/wrong/charts'
import { byWeight, isCurrent, saidBy } from '@/pages/wrong/sentence'

const group = (more: Partial<ProblemGroup>): ProblemGroup => ({ kind: 'backend', service: 'chat', code: 'upstream_error', models: [], instances: [], rescued: 0, lost: 0, since: '2026-11-17T12:00:00Z', last: '2026-11-17T12:00:00Z', requestId: 'r', ...more })

describe('what is wrong', () => {
  it('is of now for a minute', () => {
    const at = Date.parse('2026-11-17T12:00:00Z')
    expect([isCurrent(group({}), at + 59_000), isCurrent(group({}), at + 61_000)]).toEqual([true, false])
  })
  it('has what was lost before what was rescued', () => {
    expect([group({ rescued: 300 }), group({ lost: 4 }), group({ rescued: 5 })].toSorted(byWeight).map((one) => one.rescued)).toEqual([0, 300, 5])
  })
  it('is told in the words of the backend', () => {
    expect(saidBy(group({ text: 'The backend answered with status 503: model is loading' }))).toBe('503 model is loading')
    expect(saidBy(group({ text: 'connection refused' }))).toBe('connection refused')
    expect(saidBy(group({}))).toBe('')
  })
})

describe('charts of several instances', () => {
  it('add what is known, and keep gaps', () => {
    expect(sumOf([[1, null, null], [2, 3, null]], (a, b) => a + b)).toEqual([3, 3, null])
    expect(sumOf([], (a, b) => a + b)).toEqual([])
  })
})
