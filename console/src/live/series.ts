import type { Call } from '@/api/types'
import { quantile } from '@/lib/format'

export type Range = '5m' | '1h' | '24h'
export const ranges: readonly Range[] = ['5m', '1h', '24h']

/** The step and the length of each range, in seconds and points. */
export const rangeShape: Record<Range, Shape> = {
  '5m': { step: 1, points: 300, rateOver: 5, quantileOver: 10 },
  '1h': { step: 15, points: 240, rateOver: 1, quantileOver: 2 },
  '24h': { step: 300, points: 288, rateOver: 1, quantileOver: 1 },
}

/**
 * A point of a rate is the mean of its last steps, and one of a quantile is
 * taken of the calls of its last steps: a second holds too few of them.
 */
export interface Shape {
  step: number
  points: number
  rateOver: number
  quantileOver: number
}

export type Outcome = 'answered' | 'failed' | 'breaker' | 'limited'

export function outcome(call: Call): Outcome {
  if (call.status === 'success' && !call.errorCode) return 'answered'
  // A caller who goes away is no fault of gateway or backend.
  if (call.clientGone) return 'answered'
  if (call.errorCode === 'circuit_breaker_open') return 'breaker'
  if (call.httpStatus === 429) return 'limited'
  return 'failed'
}

/** The moment at which a call ended: then it counts. */
export function endOf(call: Call): number {
  return Date.parse(call.time) + call.durationMs
}

const samplesPerBucket = 256

interface Bucket {
  answered: number
  failed: number
  breaker: number
  limited: number
  tokensIn: number
  tokensOut: number
  durations: number[]
  firstTokens: number[]
  overheads: number[]
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

const emptyBucket = (): Bucket => ({
  answered: 0, failed: 0, breaker: 0, limited: 0, tokensIn: 0, tokensOut: 0, durations: [], firstTokens: [], overheads: [],
})

export const counts = ['answered', 'failed', 'breaker', 'limited', 'tokensIn', 'tokensOut'] as const

/** Counts of calls in buckets of one step; it forgets what is too old. */
export class Buckets {
  private buckets = new Map<number, Bucket>()
  constructor(readonly shape: Shape) {}

  add(call: Call): void {
    const index = Math.floor(endOf(call) / 1000 / this.shape.step)
    let bucket = this.buckets.get(index)
    if (bucket === undefined) {
      bucket = emptyBucket()
      this.buckets.set(index, bucket)
    }
    const kind = outcome(call)
    bucket[kind]++
    bucket.tokensIn += call.usage?.promptTokens ?? 0
    bucket.tokensOut += call.usage?.completionTokens ?? 0
    if (kind === 'answered') sample(bucket.durations, call.durationMs)
    if (call.streamed && call.timeToFirstTokenMs !== undefined) sample(bucket.firstTokens, call.timeToFirstTokenMs)
    if (call.timeline?.gatewayMs !== undefined) sample(bucket.overheads, call.timeline.gatewayMs)
  }

  forget(now: number): void {
    const oldest = Math.floor(now / 1000 / this.shape.step) - this.shape.points - this.shape.quantileOver - 1
    for (const index of this.buckets.keys()) if (index < oldest) this.buckets.delete(index)
  }

  /** The last points up to now; known says whether a moment was watched. */
  series(now: number, known: (from: number, to: number) => boolean): Series {
    const { step, points, rateOver, quantileOver } = this.shape
    const last = Math.floor(now / 1000 / step) - 1
    const result: Series = {
      step, times: [], answered: [], failed: [], breaker: [], limited: [], tokensIn: [], tokensOut: [],
      p50: [], p95: [], firstToken: [], overhead50: [], overhead95: [],
    }
    const seen = (index: number) => this.buckets.has(index) || known(index * step * 1000, (index + 1) * step * 1000)
    for (let index = last - points + 1; index <= last; index++) {
      result.times.push(index * step)
      if (!seen(index)) {
        for (const name of counts) result[name].push(null)
        for (const name of ['p50', 'p95', 'firstToken', 'overhead50', 'overhead95'] as const) result[name].push(null)
        continue
      }
      let steps = 1
      while (steps < rateOver && seen(index - steps)) steps++
      for (const name of counts) {
        let sum = 0
        for (let back = 0; back < steps; back++) sum += this.buckets.get(index - back)?.[name] ?? 0
        result[name].push(sum / steps / step)
      }
      const durations = this.gather(index, quantileOver, 'durations')
      const overheads = this.gather(index, quantileOver, 'overheads')
      result.p50.push(quantile(durations, 0.5))
      result.p95.push(quantile(durations, 0.95))
      result.firstToken.push(quantile(this.gather(index, quantileOver, 'firstTokens'), 0.5))
      result.overhead50.push(quantile(overheads, 0.5))
      result.overhead95.push(quantile(overheads, 0.95))
    }
    return result
  }

  private gather(index: number, over: number, name: 'durations' | 'firstTokens' | 'overheads'): number[] {
    const values: number[] = []
    for (let back = 0; back < over; back++) values.push(...(this.buckets.get(index - back)?.[name] ?? []))
    return values.sort((a, b) => a - b)
  }
}

function sample(into: number[], value: number): void {
  if (into.length < samplesPerBucket) into.push(value)
  else into[Math.floor(Math.random() * samplesPerBucket)] = value
}
