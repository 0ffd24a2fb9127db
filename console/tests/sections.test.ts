import { expect, test } from 'vitest'
import { alertKinds, drafts, freeName, typedDuration, webhooksOf } from '@/pages/settings/sections'

test('durations are as people type them', () => {
  expect([3_600_000, 900_000, 45_000, 5_400_000, 90_061_000].map(typedDuration)).toEqual(['1h', '15m', '45s', '90m', '90061s'])
})

test('webhooks are edited in the order of their names, and all kinds are none named', () => {
  const list = drafts({ b: { url: '****1234', format: 'teams', kinds: ['budget'] }, a: { url: '****', format: 'json', kinds: [] } })
  expect(list.map((one) => one.was)).toEqual(['a', 'b'])
  list.push({ name: ' c ', was: '', url: ' http://c ', format: 'slack', kinds: [...alertKinds] })
  expect(webhooksOf(list)).toEqual({
    a: { url: '****', format: 'json', kinds: [] }, b: { url: '****1234', format: 'teams', kinds: ['budget'] }, c: { url: 'http://c', format: 'slack', kinds: [] },
  })
})

test('a new webhook has a free name', () => {
  expect(freeName([])).toBe('ops')
  expect(freeName(drafts({ ops: { url: '', format: 'json', kinds: [] }, 'ops-2': { url: '', format: 'json', kinds: [] } }))).toBe('ops-3')
})
