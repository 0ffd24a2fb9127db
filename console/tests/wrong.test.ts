import { describe, expect, it } from 'vitest'
import type { ProblemGroup, Sentence } from '@/api/types'
import { merged } from '@/live/history'
import type { Series } from '@/live/series'
import { changesInstance, changesModel, changesTenant } from '@/pages/wrong/parts'
import { speedOf, type Answer } from '@/pages/playground/chat-state'
import { callsOf, countsOf } from '@/pages/wrong/sentence'

const group = (more: Partial<ProblemGroup>): ProblemGroup => ({ kind: 'backend', state: 'losing', service: 'chat', code: 'upstream_error', summary: '', models: [], instances: [], lost: 0, rescued: 0, refused: 0, tried: 0, since: '2026-11-17T12:00:00Z', last: '2026-11-17T12:00:00Z', requestId: 'r', ...more })

describe('a problem', () => {
  it('has its counts by name, without those that are 0', () => {
    expect(countsOf(group({ lost: 2, tried: 5 }))).toEqual([['lost', 2], ['tried', 5]])
  })
  it('leads to the calls of its object', () => {
    expect(callsOf(group({ subject: 'gpu:1', instances: ['m@http://gpu:1'] }))).toEqual({ service: 'chat', instance: 'm@http://gpu:1', show: 'troubled' })
    expect(callsOf(group({ subject: 'gpu:1', instances: ['a', 'b'] }))).toEqual({ service: 'chat', host: 'gpu:1', show: 'troubled' })
    expect(callsOf(group({ kind: 'refusal', subject: 'tenant/acme' }))).toEqual({ refusedBy: 'tenant/acme' })
    expect(callsOf(group({ kind: 'request', subject: 'gpt-5o', code: 'service_unavailable' }))).toEqual({ asked: 'gpt-5o', errorCode: 'service_unavailable' })
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
