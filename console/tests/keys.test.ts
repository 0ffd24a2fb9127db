import { describe, expect, it } from 'vitest'
import type { Key } from '@/api/types'
import { yamlLines } from '@/lib/yaml'
import { keyChanges, keyInFile, localTime, toKeyForm } from '@/pages/keys/form'

describe('the form of a key', () => {
  const stored = {
    id: 'team-a', tenant: 'acme', services: ['chat'], models: ['llama*'], addresses: [], expiresAt: '2099-01-31T00:00:00Z',
    limits: { requestsPerMinute: 60, tokensPerMinute: 0, concurrentRequests: -1 }, budgets: { day: { cost: '2.5', tokens: 1000 } },
  } as unknown as Key
  const form = toKeyForm(stored)
  it('sends nothing when nothing was changed', () => {
    expect(keyChanges(form, stored)).toEqual({})
  })
  it('sends only what was changed, and what was emptied as none', () => {
    expect(keyChanges({ ...form, tenant: '', models: 'a, b', expiresAt: '' }, stored)).toEqual({ tenant: '', models: ['a', 'b'], expiresAt: '' })
    expect(keyChanges({ ...form, limits: { ...form.limits, requestsPerMinute: '', tokensPerMinute: '5000' } }, stored)).toEqual({ limits: { requestsPerMinute: 0, tokensPerMinute: 5000 } })
    expect(keyChanges({ ...form, runs: { ...form.runs, cost: '5', time: '4h' } }, stored)).toEqual({ runs: { cost: '5', time: '4h' } })
    const limited = { ...stored, runs: { cost: 5, time: 5_400_000 } } as unknown as Key
    expect(toKeyForm(limited).runs).toMatchObject({ cost: '5', time: '90m', tokens: '' })
    expect(keyChanges({ ...toKeyForm(limited), runs: { ...toKeyForm(limited).runs, cost: '', time: '' } }, limited)).toEqual({ runs: { cost: '0', time: '0s' } })
    expect(keyChanges({ ...form, budgets: { ...form.budgets, day: { requests: '7', tokens: '', cost: '' } } }, stored)).toEqual({ budgets: { day: { requests: 7, tokens: 0, cost: '0' } } })
  })
  it('leaves it to the gateway to say what is wrong with text that is no number', () => {
    expect(keyChanges({ ...form, limits: { ...form.limits, tokensPerMinute: 'many' } }, stored)).toEqual({ limits: { tokensPerMinute: 'many' } })
  })
  it('begins empty, and then only an id that was typed is sent', () => {
    expect(keyChanges(toKeyForm(null), null)).toEqual({})
    expect(keyChanges({ ...toKeyForm(null), id: ' x ' }, null)).toEqual({ id: 'x' })
  })
  it('shows times as the person has them', () => {
    expect(new Date(localTime('2099-01-31T00:00:00Z')).toISOString()).toBe('2099-01-31T00:00:00.000Z')
    expect(localTime('')).toBe('')
  })
})

describe('a key in the file', () => {
  it('has what was typed, with the names of the file', () => {
    const form = { ...toKeyForm(null), id: 'ci', services: ['chat', 'imgGen'] as const, models: 'a, b*' }
    form.limits.requestsPerMinute = '60'
    form.budgets.day.cost = '2.50'
    expect(yamlLines({ security: { keys: [keyInFile({ ...form, services: [...form.services] })] } }).join('\n')).toBe(
      ['security:', '  keys:', '    - id: ci', '      key-sha256: what patchbay tokens hash prints', '      services:', '        - chat', '        - img-gen', '      models:', '        - a', '        - b*', '      limits:', '        requests-per-minute: 60', '      budgets:', '        day:', '          cost: 2.5'].join('\n'),
    )
    expect(Object.keys(keyInFile(toKeyForm(null)))).toEqual(['id', 'keySha256'])
  })
})
