import type { Call } from '@/api/types'
import { quantile } from '@/lib/format'
import { outcome } from '@/live/series'

export const shown = ['all', 'failed', 'retried', 'troubled', 'slow'] as const

export interface Filter {
  q: string
  show: (typeof shown)[number]
  service: string
  model: string
}

/** The slowest twentieth of each service's answered calls counts as slow. */
export function slowLimits(calls: readonly Call[]): Map<string, number> {
  const durations = new Map<string, number[]>()
  for (const call of calls) {
    if (outcome(call) !== 'answered') continue
    const list = durations.get(call.service)
    if (list === undefined) durations.set(call.service, [call.durationMs])
    else list.push(call.durationMs)
  }
  return new Map([...durations].map(([service, list]) => [service, quantile(list.sort((a, b) => a - b), 0.95) ?? Number.POSITIVE_INFINITY]))
}

export function filterCalls(calls: readonly Call[], filter: Filter): readonly Call[] {
  const q = filter.q.trim().toLowerCase()
  if (q === '' && filter.show === 'all' && filter.service === '' && filter.model === '') return calls
  const limits = filter.show === 'slow' ? slowLimits(calls) : null
  return calls.filter((call) => {
    if (filter.service !== '' && call.service !== filter.service) return false
    if (filter.model !== '' && call.model !== filter.model) return false
    if (filter.show === 'failed' && outcome(call) === 'answered') return false
    if (filter.show === 'retried' && call.attempts < 2) return false
    if (filter.show === 'troubled' && outcome(call) === 'answered' && call.attempts < 2) return false
    if (limits !== null && call.durationMs < (limits.get(call.service) ?? Number.POSITIVE_INFINITY)) return false
    if (q === '') return true
    const tries = call.tries.map((attempt) => `${attempt.instance} ${attempt.errorCode ?? ''}`).join(' ')
    return `${call.requestId} ${call.model} ${call.instance} ${call.errorCode ?? ''} ${call.httpStatus} ${call.service} ${tries}`.toLowerCase().includes(q)
  })
}

/** How many of the calls that came after the held ones (both newest first) the filter shows. */
export function countNew(calls: readonly Call[], held: readonly Call[], filter: Filter): number {
  const newest = held[0]
  const known = newest === undefined ? -1 : calls.findIndex((call) => call.requestId === newest.requestId)
  const after = new Set(known < 0 ? calls : calls.slice(0, known))
  return after.size === 0 ? 0 : filterCalls(calls, filter).filter((call) => after.has(call)).length
}

/** The instances that failed before the one that answered; empty where the first did. */
export function rescuedFrom(call: Call): string[] {
  const tries = call.tries ?? []
  const failed = tries.filter((attempt) => attempt.errorCode !== undefined && attempt.errorCode !== '')
  return outcome(call) === 'answered' && failed.length < tries.length ? failed.map((attempt) => attempt.instance) : []
}

/** The length of a bar for a duration: logarithmic, 0.1 ms to 100 s. */
export function logShare(ms: number): number {
  return Math.min(1, Math.max(0.02, (Math.log10(Math.max(ms, 0.1)) + 1) / 6))
}
