import { expect, it } from 'vitest'
import { doneOf, isOpen, mayCancel } from '@/pages/batches/progress'

it('only a batch with lines to run can be stopped', () => {
  const states = ['validating', 'in_progress', 'finalizing', 'cancelling', 'completed', 'failed', 'expired', 'cancelled'] as const
  expect(states.filter((state) => mayCancel({ state }))).toEqual(['validating', 'in_progress'])
  expect(states.filter((state) => isOpen({ state }))).toEqual(['validating', 'in_progress', 'finalizing', 'cancelling'])
})

it('lines with an error have ended too', () => {
  expect(doneOf({ completed: 3, failed: 2 })).toBe(5)
})
