import type { Call } from '@/api/types'

export type Range = '5m' | '1h' | '24h' | '7d' | '30d'
export const ranges: readonly Range[] = ['5m', '1h', '24h', '7d', '30d']

/** The step and the length of each range, in seconds and points. */
export const rangeShape: Record<Range, { step: number; points: number }> = {
  '5m': { step: 1, points: 300 },
  '1h': { step: 15, points: 240 },
  '24h': { step: 300, points: 288 },
  '7d': { step: 600, points: 1008 },
  '30d': { step: 3600, points: 720 },
}

/** Whether the history begins within a range that ends now: there is nothing to draw before. */
export function beganWithin(range: Range, began: number, now: number): boolean {
  const { step, points } = rangeShape[range]
  return began > now - step * points * 1000
}

export type Outcome = 'answered' | 'failed' | 'breaker' | 'limited'

/** How a call is drawn. The gateway says how it ended. */
export function outcome(call: Call): Outcome {
  if (call.outcome === 'refused') return 'limited'
  if (call.outcome === 'stopped') return 'failed'
  // A caller who goes away is no fault of gateway or backend.
  if (call.outcome !== 'lost') return 'answered'
  return call.errorCode === 'circuit_breaker_open' ? 'breaker' : 'failed'
}

/** The moment at which a call ended: then it counts. */
export function endOf(call: Call): number {
  return Date.parse(call.time) + call.durationMs
}

/** Columns of one range, oldest first; null where nothing is known. */
export interface Series {
  step: number
  times: number[]
  answered: (number | null)[]
  failed: (number | null)[]
  breaker: (number | null)[]
  limited: (number | null)[]
  tokensIn: (number | null)[]
  tokensOut: (number | null)[]
  p50: (number | null)[]
  p95: (number | null)[]
  firstToken: (number | null)[]
  overhead50: (number | null)[]
  overhead95: (number | null)[]
}

export const counts = ['answered', 'failed', 'breaker', 'limited', 'tokensIn', 'tokensOut'] as const
