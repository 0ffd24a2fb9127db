import type { Call } from '@/api/types'
import { outcome } from '@/live/series'

/** The instances that failed before the one that answered; empty where the first did. */
export function rescuedFrom(call: Call): string[] {
  const tries = call.tries ?? []
  const failed = tries.filter((attempt) => attempt.errorCode !== undefined && attempt.errorCode !== '')
  return outcome(call) === 'answered' && failed.length < tries.length ? failed.map((attempt) => attempt.instance) : []
}

/** Whether another model served a call than the one of the name that was asked for: a fallback, or that of an alias. */
export const isServedByOther = (call: Pick<Call, 'asked' | 'model'>): boolean => (call.asked ?? '') !== '' && call.model !== '' && call.asked !== call.model

/** Whether an error is of a budget: one that is used up, or whose rest is reserved by requests that run. */
export const isOfBudget = (code: string | undefined): boolean => code === 'budget_exceeded' || code === 'budget_reserved'

/** What a backend said when it failed, where the error is that it did. */
export function backendWords(call: Pick<Call, 'said'>): string | undefined {
  const [first, ...more] = call.said ?? []
  return first?.code === 'call.status_said' && more.length === 0 ? first.values?.words : undefined
}

/** The length of a bar for a duration: logarithmic, 0.1 ms to 100 s. */
export function logShare(ms: number): number {
  return Math.min(1, Math.max(0.02, (Math.log10(Math.max(ms, 0.1)) + 1) / 6))
}
