import type { Call } from '@/api/types'

/** The instances that failed before the one that answered; empty where the first did. */
export function rescuedFrom(call: Call): string[] {
  const tries = call.tries ?? []
  const failed = tries.filter((attempt) => attempt.errorCode !== undefined && attempt.errorCode !== '')
  return call.outcome === 'rescued' && failed.length < tries.length ? failed.map((attempt) => attempt.instance) : []
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

/** How many letters must be typed, dropped or replaced to make one name of another. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const above = row
    row = [i]
    for (let j = 1; j <= b.length; j++) row.push(Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
  }
  return row[b.length]!
}

/**
 * The first of the names in an error that may have been meant by the one that was asked for. The
 * gateway names all models where they are few, so most of them are not alike.
 */
export function nearName(asked: string, names: string): string | undefined {
  const isNear = (name: string) => (asked.length >= 4 && name.startsWith(asked.slice(0, 4))) || editDistance(asked, name) * 3 <= asked.length
  return [...names.matchAll(/"([^"]+)"/g)].map((match) => match[1]!).find(isNear)
}

/** The length of a bar for a duration: logarithmic, 0.1 ms to 100 s. */
export function logShare(ms: number): number {
  return Math.min(1, Math.max(0.02, (Math.log10(Math.max(ms, 0.1)) + 1) / 6))
}
