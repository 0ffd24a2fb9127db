import { describe, expect, it } from 'vitest'
import type { BudgetUse, Call, ProblemGroup, Sentence } from '@/api/types'
import { speak } from '@/i18n'
import { said as sentences } from '@/i18n/said.zh'
import { zh } from '@/i18n/zh'
import { merged } from '@/live/history'
import type { Series } from '@/live/series'
import { changesInstance, changesModel, changesTenant, failuresOf } from '@/pages/wrong/parts'
import { currentOf } from '@/pages/quota/refused'
import { speedOf, type Answer } from '@/pages/playground/chat-state'
import { byWeight, isCurrent, isUnknown, quietKey, saidBy } from '@/pages/wrong/sentence'

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
    const { said } = speak({ dictionary: zh, sentences })
    const status: Sentence = { code: 'call.status_said', values: { status: '503', words: 'model is loading' } }
    expect(saidBy(group({ text: 'The backend answered with status 503: model is loading', said: [status] }), said)).toBe('503 model is loading')
    expect(saidBy(group({ text: 'The backend did not answer in time.', said: [{ code: 'call.timeout' }] }), said)).toBe(sentences['call.timeout'])
    expect(saidBy(group({}), said)).toBe('')
  })
})

describe('a budget that refused nobody lately', () => {
  const out = group({ kind: 'refusal', subject: 'tenant/acme', code: 'budget_exceeded' })
  const until = '2026-12-01T00:00:00Z'
  it('has no calls only where they were counted', () => {
    expect([quietKey(out), quietKey({ ...out, until }), quietKey({ ...out, calls: 0 })]).toEqual(['wrong.budgetQuiet', 'wrong.budgetQuietUntil', 'wrong.budgetQuiet'])
    expect([quietKey({ ...out, calls: 3 }), quietKey({ ...out, calls: 3, until })]).toEqual(['wrong.budgetOut', 'wrong.budgetOutUntil'])
  })
  it('says nothing of calls where none has told of it', () => {
    const [untold] = currentOf([], [{ budget: { of: 'tenant/acme', reset: until } as BudgetUse, group: null }], 0)
    expect([quietKey(untold!), quietKey({ ...untold!, until: undefined })]).toEqual(['wrong.budgetOutUntil', 'wrong.budgetOut'])
  })
})

describe('a name that no model has', () => {
  it('is not an outage', () => {
    const unknown = group({ kind: 'request', subject: 'gpt-5o', code: 'service_unavailable' })
    expect([isUnknown(unknown), isUnknown({ ...unknown, models: ['m'] }), isUnknown({ ...unknown, kind: 'backend' })]).toEqual([true, false, false])
  })
})

describe('the history of an object', () => {
  const disabled: Sentence = { code: 'change.instance_disabled', values: { service: 'chat', instance: 'm@http://gpu-2:8000' } }
  const alias: Sentence = { code: 'change.service_field', values: { service: 'chat', field: 'aliases.fast', from: '(none)', to: 'm' } }
  const tenant: Sentence = { code: 'change.tenant_field', values: { tenant: 'acme', field: 'limits.requests', from: '0', to: '5' } }
  it('has the changes of an instance, and not those of one whose name begins alike', () => {
    expect([disabled, alias, tenant].filter(changesInstance('chat', ['m@http://gpu-2:8000']))).toEqual([disabled])
    expect([disabled].filter(changesInstance('chat', ['m@http://gpu-2:80']))).toEqual([])
    expect([disabled].filter(changesInstance('embedding', ['m@http://gpu-2:8000']))).toEqual([])
  })
  it('has the changes of a model and of the names that lead to it', () => {
    expect([disabled, alias, tenant].filter(changesModel('chat', 'm'))).toEqual([disabled, alias])
    expect([disabled, alias].filter(changesModel('chat', 'm2'))).toEqual([])
  })
  it('has the changes of a tenant', () => {
    expect([disabled, alias, tenant].filter(changesTenant('acme'))).toEqual([tenant])
  })
})

describe('charts of several services', () => {
  it('add what is known, take the times of one of them, and keep gaps', () => {
    const nothing = { p50: [null, null, null], firstToken: [null, null, null], overhead50: [null, null, null], overhead95: [null, null, null] }
    const one = { step: 1, times: [1, 2, 3], answered: [1, null, null], p95: [10, null, null], ...nothing } as unknown as Series
    const two = { step: 1, times: [1, 2, 3], answered: [2, 3, null], p95: [30, 5, null], ...nothing } as unknown as Series
    expect(merged([one, two])).toEqual({ ...one, answered: [3, 3, null] })
    expect(merged([one, two], two)).toEqual({ ...two, answered: [3, 3, null] })
    expect(merged([one])).toBe(one)
  })
})

describe('what calls failed with', () => {
  const call = (more: Partial<Call>) => ({ httpStatus: 502, errorCode: 'upstream_error', errorMessage: 'status 503: model is loading', instance: 'm@http://gpu-2:8000', attempts: 1, requestId: 'r', time: '2026-11-17T12:00:00Z', ...more }) as Call
  it('is told once, in the words of whoever said it', () => {
    const found = failuresOf([call({ requestId: 'latest' }), call({}), call({ attempts: 0, instance: '', httpStatus: 404, errorCode: 'model_not_found', errorMessage: 'no model gpt-5o' }), call({ refusedBy: 'tenant/a', errorCode: 'budget_exceeded' })])
    expect(found.map((one) => [one.host, one.code, one.count, one.requestId])).toEqual([['gpu-2:8000', 'upstream_error', 2, 'latest'], ['', 'model_not_found', 1, 'r']])
  })
})

describe('tokens a second', () => {
  const answer = (more: Partial<Answer>): Answer => ({ model: 'm', text: '', state: 'done', error: null, requestId: '', handle: '', attempts: 1, overheadMs: null, began: 0, firstTokenMs: 100, endMs: 2100, usage: null, events: 0, ticks: [], ...more })
  it('are those after the first, in the time after the first', () => {
    expect(speedOf(answer({ usage: { prompt_tokens: 1, completion_tokens: 101 } }), 2100)).toEqual({ perSecond: 50, isTold: true })
    expect(speedOf(answer({}), 2100, 101)).toEqual({ perSecond: 50, isTold: true })
  })
  it('go by the events until the last of an answer that was stopped', () => {
    expect(speedOf(answer({ state: 'stopped', events: 51, ticks: [1060, 1100], endMs: 3000 }), 3000)).toEqual({ perSecond: 50, isTold: false })
    expect(speedOf(answer({ state: 'stopped', events: 1, ticks: [100] }), 3000)).toBeNull()
    expect(speedOf(answer({ firstTokenMs: null }), 3000, 100)).toBeNull()
  })
})
