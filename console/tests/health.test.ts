import { expect, test } from 'vitest'
import { fileFault } from '@/lib/health'

test('a configuration file with mistakes is shown with its reason', () => {
  const reason = 'patchbay.yaml:3:5  unknown key "chatt"'
  expect(fileFault({ components: { configFile: { status: 'DEGRADED', details: { reason } } } })).toBe(reason)
  expect(fileFault({ components: { configFile: { status: 'DEGRADED' } } })).toBe('')
  expect(fileFault({ components: { configFile: { status: 'UP', details: {} } } })).toBeUndefined()
  expect(fileFault({ components: { redis: { status: 'DEGRADED' } } })).toBeUndefined()
  expect(fileFault(undefined)).toBeUndefined()
})
