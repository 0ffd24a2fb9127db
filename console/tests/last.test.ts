import { describe, expect, it } from 'vitest'
import { empty } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { idsOf, lastOnes, modelsWithout as losses, rateOf, servingRows, servingStates, takenOut, type Serving } from '@/pages/services/rows'
import type { Row } from '@/pages/services/row'

const state = (id: string, more: Partial<InstanceState> = {}) => ({ service: 'chat', id, model: id.split('@')[0]!, enabled: true, weight: 1, forced: false, breaker: 'CLOSED', health: 'HEALTHY', ...more }) as InstanceState
const row = (id: string, more: Partial<Row['instance']> = {}, found: InstanceState[] = [], own?: InstanceState): Row => ({ service: 'chat', id, instance: { name: id.split('@')[0]!, baseUrl: 'http://h', ...more } as Row['instance'], state: own, found })
const modelsWithout = (all: readonly Serving[], out: string[]) => losses(all, out, {}).map((loss) => loss.model)

describe('what is left without instances', () => {
  it('is named by model', () => {
    const all = servingStates([state('a@1'), state('a@2'), state('b@1'), state('c@1', { enabled: false })])
    expect(modelsWithout(all, ['chat a@1'])).toEqual([])
    expect(modelsWithout(all, ['chat a@1', 'chat a@2', 'chat b@1'])).toEqual(['a', 'b'])
    expect(modelsWithout(all, ['chat c@1'])).toEqual([]) // nothing serves it now
    expect([...lastOnes(all)]).toEqual(['chat b@1'])
  })
  it('counts no instance that is off, without weight or held open', () => {
    const held = state('a@2', { forced: true, breaker: 'OPEN' })
    for (const other of [row('a@2', { enabled: false }), row('a@2', { weight: 0 }), row('a@2', {}, [], held)]) {
      const all = servingRows([row('a@1'), other])
      expect(modelsWithout(all, ['chat a@1'])).toEqual(['a'])
      expect(lastOnes(all).has('chat a@1')).toBe(true)
    }
  })
  it('counts no instance that is ill, as long as another is well', () => {
    for (const ill of [{ breaker: 'OPEN' }, { breaker: 'HALF_OPEN' }, { health: 'UNHEALTHY' }] as const) {
      const all = servingRows([row('a@1'), row('a@2', {}, [], state('a@2', ill))])
      expect(modelsWithout(all, ['chat a@1'])).toEqual(['a'])
      expect(modelsWithout(all, ['chat a@2'])).toEqual([])
      expect([...lastOnes(all)]).toEqual(['chat a@1'])
    }
    expect(modelsWithout(servingStates([state('a@1'), state('a@2', { health: 'UNKNOWN' })]), ['chat a@1'])).toEqual([]) // not checked yet
  })
  it('asks about the last of those that are ill, which may become well again', () => {
    const ill = [state('a@1', { breaker: 'OPEN' }), state('a@2', { breaker: 'OPEN' })]
    expect(modelsWithout(servingStates(ill), ['chat a@1'])).toEqual([])
    expect(modelsWithout(servingStates(ill), ['chat a@1', 'chat a@2'])).toEqual(['a'])
    expect([...lastOnes(servingStates(ill.slice(0, 1)))]).toEqual(['chat a@1'])
  })
  it('has every model that an instance has found', () => {
    const finds = row('*@1', { name: '', models: ['discover'] } as never, [state('x@1'), state('y@1')])
    const all = servingRows([finds, row('x@2')])
    expect(modelsWithout(all, idsOf(finds))).toEqual(['y'])
    expect(idsOf(finds).some((id) => lastOnes(all).has(id))).toBe(true)
  })
  it('does not mix the services', () => {
    const all = [...servingStates([state('a@1')]), { service: 'embedding', model: 'a', id: 'a@1', isOn: true, isWell: true, canServe: true }]
    expect(modelsWithout(all, ['chat a@1'])).toEqual(['a'])
    expect(lastOnes(all).size).toBe(2)
  })
  it('is answered by the first fallback that can serve', () => {
    const chat = { aliases: { quick: 'b' }, fallbacks: { a: ['c', 'quick'] }, fallbackOn: ['unavailable'] } as never
    const all = servingStates([state('a@1'), state('b@1'), state('c@1', { breaker: 'OPEN' })])
    expect(losses(all, ['chat a@1'], { chat })).toEqual([{ model: 'a', by: 'quick', fails: false }])
    expect(losses(all, ['chat a@1', 'chat b@1'], { chat })).toEqual([{ model: 'a', by: undefined, fails: false }, { model: 'b', by: undefined, fails: false }])
    expect(losses(all, ['chat a@1'], { embedding: chat })[0]!.by).toBeUndefined()
    expect(losses(all, ['chat a@1'], { chat: { fallbacks: { a: ['b'] }, fallbackOn: ['overloaded'] } as never })[0]!.by).toBeUndefined()
    expect(losses(all, ['chat a@1'], { chat: { aliases: { big: 'a' }, fallbacks: { big: ['b'] }, fallbackOn: ['unavailable'] } as never })[0]!.by).toBe('b')
  })
  it('is told from what fails already', () => {
    const fails = (more: Partial<InstanceState>) => losses(servingStates([state('a@1', more)]), ['chat a@1'], {})
    expect(fails({ breaker: 'OPEN' })).toEqual([{ model: 'a', by: undefined, fails: true }])
    expect(fails({ health: 'UNHEALTHY' })[0]!.fails).toBe(true)
    expect(fails({ breaker: 'HALF_OPEN' })[0]!.fails).toBe(false) // trials are sent
  })
})

describe('the requests that are taken away', () => {
  const instances = new Map(Object.entries({ 'chat a@1': 0.5, 'chat x@1': 2, 'chat y@1': 3, 'embedding a@1': 9 }).map(([id, rate]) => [id, { ...empty, rate }]))
  it('are those of a name, and of all that was found', () => {
    const finds = row('*@1', { name: '', models: ['discover'] }, [state('x@1'), state('y@1')])
    expect([rateOf([row('a@1')], { instances }), rateOf([finds], { instances }), rateOf([row('a@1'), finds, row('new@1')], { instances })]).toEqual([0.5, 5, 5.5])
  })
})

describe('what a change of an instance takes out', () => {
  const finds = row('*@1', { name: '', models: ['discover'] }, [state('x@1'), state('y@1')])
  it('is the name that it gives up', () => {
    const one = row('a@1')
    expect([takenOut(one, { name: 'b' }), takenOut(one, { name: '', models: ['discover'] }), takenOut(one, { weight: 0 })]).toEqual([['chat a@1'], ['chat a@1'], ['chat a@1']])
    expect([takenOut(one, { weight: 2 }), takenOut(one, { tier: 1 })]).toEqual([[], []])
  })
  it('is what it has found and is not asked for any more', () => {
    expect([takenOut(finds, { models: ['x*'] }), takenOut(finds, { models: ['x', 'y*'] }), takenOut(finds, { models: ['z'] })]).toEqual([['chat y@1'], [], ['chat x@1', 'chat y@1']])
    expect(takenOut(row('x*@1', { name: '', models: ['x*'] }, [state('x@1')]), { models: ['discover'] })).toEqual([])
    expect(takenOut(finds, { name: 'x', models: [] })).toEqual(['chat y@1']) // under its own name
    expect([takenOut(finds, { tier: 1 }), takenOut(finds, { weight: 0 })]).toEqual([[], idsOf(finds)])
  })
})
