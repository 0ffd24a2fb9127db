import { describe, expect, it } from 'vitest'
import type { ProblemGroup, ServiceType, Version } from '@/api/types'
import type { Stat, Stats } from '@/live/stats'
import type { InstanceState } from '@/live/types'
import { cutBy, cutOff } from '@/pages/overview/assess'
import { isExceptional } from '@/pages/wrong/why'
import { cableWidth, layout, otherHosts } from '@/pages/overview/bay-layout'

export function instance(model: string, host: string, change: Partial<InstanceState> = {}): InstanceState {
  return {
    id: `${model}@http://${host}`, service: 'chat', model, url: `http://${host}`, host, adapter: 'openai', health: 'HEALTHY', error: '', enabled: true,
    weight: 1, inFlight: 0, requests: 0, errors: 0, breaker: 'CLOSED', forced: false, failures: 0, failureThreshold: 5, successThreshold: 3,
    breakerTimeout: 30_000, successes: 0, stateSince: null, heldBy: '', heldReason: '', lastError: null, lastFailure: null, failingSince: null, nextRetry: null, ...change,
  }
}

const stat = (rate: number): Stat => ({ requests: rate * 60, errors: 0, rate, errorRate: 0, p95: 10, firstToken: null })

function stats(instances: InstanceState[], rate = 1): Stats {
  return {
    total: stat(rate * instances.length),
    models: new Map(instances.map((i) => [`${i.service} ${i.model}`, stat(rate)])),
    instances: new Map(instances.map((i) => [`${i.service} ${i.id}`, stat(rate)])),
    services: new Map<ServiceType, Stat>(),
  }
}

const options = { unfolded: new Set<string>(), showIdle: false }

describe('the patch bay', () => {
  it('has tall rows with 3 instances and puts a model at the middle of its instances', () => {
    const all = [instance('a', 'x:1'), instance('a', 'y:1'), instance('b', 'x:1')]
    const bay = layout(all, stats(all), options)
    expect(bay.tall).toBe(true)
    const [first, second] = bay.jacks
    expect(bay.models[0]!.y).toBe((first!.y + second!.y) / 2)
    expect(bay.cables).toHaveLength(3)
  })

  it('has shares that add up and agree with the rates, also behind an open breaker', () => {
    const all = [instance('a', 'x:1', { breaker: 'OPEN' }), instance('a', 'y:1')]
    const { jacks } = layout(all, stats(all), options)
    expect(jacks.map((jack) => jack.share)).toEqual([0.5, 0.5])
    expect(jacks[0]!.stat.rate).toBe(jacks[1]!.stat.rate)
  })

  it('has one row for each of 16 instances, below their backends', () => {
    const all = Array.from({ length: 16 }, (_, i) => instance(`m${i}`, `h${i % 3}:1`))
    const bay = layout(all, stats(all), options)
    expect(bay).toMatchObject({ tall: false, folding: false })
    expect(bay.jacks).toHaveLength(16)
    expect(bay.hosts).toHaveLength(3)
    expect(new Set(bay.jacks.map((jack) => jack.y)).size).toBe(16)
  })

  it('folds 60 instances into their backends, except for trouble', () => {
    const all = Array.from({ length: 60 }, (_, i) => instance(`m${i % 12}`, `h${Math.floor(i / 6)}:1`))
    all[7] = { ...all[7]!, breaker: 'OPEN' }
    all[20] = { ...all[20]!, health: 'UNHEALTHY' }
    const bay = layout(all, stats(all), options)
    expect(bay.folding).toBe(true)
    expect(bay.jacks.length + bay.hosts.length).toBeLessThanOrEqual(24)
    expect(bay.jacks.filter((jack) => !jack.folded).map((jack) => jack.kind)).toEqual(['open', 'unreachable'])
    expect(bay.cables.at(-1)!.kind).toBe('open')
    const opened = layout(all, stats(all), { ...options, unfolded: new Set(['h1:1']) })
    expect(opened.jacks.filter((jack) => jack.host === 'h1:1')).toHaveLength(6)
  })

  it('has at most 24 rows a side for 60 backends, and folds the quiet ones', () => {
    const all = Array.from({ length: 60 }, (_, i) => instance(`m${i % 20}`, `h${i}:1`, i === 34 ? { breaker: 'OPEN' } : {}))
    const known = stats(all)
    for (const [i, one] of all.entries()) known.instances.set(`chat ${one.id}`, stat(i < 10 ? 5 : 0))
    const bay = layout(all, known, options)
    expect(bay.jacks).toHaveLength(24)
    expect(bay.jacks.slice(0, 10).map((jack) => jack.host)).toEqual(all.slice(0, 10).map((one) => one.host))
    expect(bay.jacks.filter((jack) => !jack.folded).map((jack) => jack.instances[0]!.host)).toEqual(['h34:1'])
    expect(bay.jacks.at(-1)).toMatchObject({ host: otherHosts, kind: 'idle' })
    expect(new Set(bay.jacks.flatMap((jack) => jack.instances)).size).toBe(60)
    expect(bay.cables).toHaveLength(new Set(bay.cables.map((cable) => cable.key)).size)
    const opened = layout(all, known, { ...options, unfolded: new Set([otherHosts]) })
    expect(opened.jacks).toHaveLength(60)
    expect(opened.hosts.at(-1)!.host).toBe(otherHosts)
  })

  it('folds models without traffic into one line', () => {
    const all = Array.from({ length: 40 }, (_, i) => instance(`m${i}`, `h${i % 10}:1`))
    const some = stats(all)
    for (let i = 10; i < 40; i++) some.models.set(`chat m${i}`, { ...stat(0), requests: 0 })
    const bay = layout(all, some, options)
    expect(bay.models).toHaveLength(10)
    expect(bay.hidden).toBe(30)
    expect(layout(all, some, { ...options, showIdle: true }).hidden).toBe(0)
  })

  it('draws no cable to what is switched off', () => {
    const all = [instance('a', 'x:1', { enabled: false }), instance('a', 'y:1', { weight: 0 })]
    expect(layout(all, stats(all), options).cables).toEqual([])
  })

  it('rounds widths so that a quiet gateway looks still', () => {
    expect(cableWidth(0, 10)).toBe(1)
    expect(cableWidth(10, 10)).toBe(8)
    expect(cableWidth(5, 10)).toBe(cableWidth(5.05, 10))
  })
})

describe('a model of which no instance can serve', () => {
  const open = instance('b', 'x:1', { breaker: 'OPEN' })
  const down = { kind: 'down', service: 'chat', models: ['b'] } as unknown as ProblemGroup
  it('has no cause where it was switched off', () => {
    expect(isExceptional({ ...open, enabled: false, failingSince: 1 })).toBe(false)
    expect(isExceptional(open)).toBe(true)
  })
  it('names the instances that a person took out, and the version that did', () => {
    const off = instance('b', 'y:1', { enabled: false })
    expect(cutOff([instance('a', 'x:1', { weight: 0 }), open, off], [down])).toEqual([off])
    expect(cutOff([instance('a', 'x:1'), instance('b', 'x:1'), off], [])).toEqual([])
    const version = (number: number, code: string) => ({ version: number, said: [{ code, values: { service: 'chat', instance: off.id } }] }) as unknown as Version
    const [disabled, enabled] = [version(2, 'change.instance_disabled'), version(3, 'change.instance_enabled')]
    expect(cutBy([disabled], off)).toBe(disabled)
    expect(cutBy([enabled, disabled], off)).toBeUndefined()
  })
})
