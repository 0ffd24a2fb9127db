// The timeline of a call as bars: which span each phase took, and how spans
// become places on an axis.
import type { Call, Sentence } from '@/api/types'
import { niceMax } from '@/lib/format'

export type Phase = 'read' | 'limiter' | 'queue' | 'load' | 'pick' | 'firstByte' | 'firstToken' | 'stream' | 'body' | 'errorRead'
export type BarKind = 'gateway' | 'waiting' | 'streaming' | 'failed'

export interface TimeBar {
  phase: Phase
  from: number
  to: number
  kind: BarKind
  /** False when the call did not go through this phase. */
  present: boolean
}

export interface TryBars {
  instance: string
  errorCode: string
  /** The word for what the network did. */
  cause: string
  /** What the backend said. */
  errorText: string
  /** Where a failed attempt was sent. */
  url: string
  said: Sentence[] | undefined
  /** Of the backend's answer, null without one. */
  httpStatus: number | null
  handle: string
  bars: TimeBar[]
}

export interface Timeline {
  total: number
  gateway: TimeBar[]
  tries: TryBars[]
}

export function timelineOf(call: Call): Timeline {
  const line = call.timeline ?? {}
  const received = line.receivedMs ?? 0
  const limited = line.limiterMs ?? received
  const queued = line.queuedMs ?? 0
  const held = Math.min(line.heldMs ?? 0, queued)
  const total = Math.max(call.durationMs, line.endMs ?? 0)
  const bar = (phase: Phase, from: number, to: number, kind: BarKind, present = true): TimeBar => ({ phase, from, to: Math.max(from, to), kind, present })
  const gateway = [
    bar('read', 0, received, 'gateway'),
    bar('limiter', received, limited, 'gateway', line.limiterMs !== undefined),
    bar('queue', limited, limited + queued - held, 'waiting', queued > held),
  ]
  if (held > 0) gateway.push(bar('load', limited + queued - held, limited + queued, 'waiting'))
  let before = limited + queued
  const tries = (call.tries ?? []).map((attempt, index, all): TryBars => {
    const failed = attempt.errorCode !== undefined && attempt.errorCode !== ''
    const connect = attempt.connectMs ?? attempt.pickMs ?? before
    const end = attempt.endMs ?? total
    // Pieces of a request, and calls that were made again, run beside each other.
    // What waits for its model was picked before.
    const picked = held > 0 && all.length === 1 ? before : Math.min(before, attempt.pickMs ?? before)
    const bars = [bar('pick', picked, connect, 'gateway')]
    if (attempt.firstByteMs === undefined) bars.push(bar('firstByte', connect, end, failed ? 'failed' : 'waiting'))
    else {
      const cut = failed && call.streamed && (index === all.length - 1 || all[index + 1]!.resumed !== undefined)
      // A stream often begins long before its first token.
      const token = call.streamed && (!failed || cut) && index === all.length - 1 ? line.firstTokenMs : undefined
      const begun = Math.max(attempt.firstByteMs, token ?? 0)
      const together = token !== undefined && begun === attempt.firstByteMs
      bars.push(bar(together ? 'firstToken' : 'firstByte', connect, attempt.firstByteMs, failed && !cut ? 'failed' : 'waiting'))
      if (begun > attempt.firstByteMs) bars.push(bar('firstToken', attempt.firstByteMs, begun, 'waiting'))
      bars.push(bar(failed && !cut ? 'errorRead' : call.streamed ? 'stream' : 'body', begun, end, failed ? 'failed' : 'streaming'))
    }
    before = end
    return { instance: attempt.instance, errorCode: attempt.errorCode ?? '', cause: attempt.cause ?? '', errorText: attempt.errorText ?? '', url: attempt.url ?? '', said: attempt.said, httpStatus: attempt.httpStatus ?? null, handle: attempt.handle, bars }
  })
  return { total, gateway, tries }
}

export interface Axis {
  /** The end of the enlarged part, null when the axis is not split. */
  split: number | null
  place(ms: number): number
  ticks: { at: number; ms: number }[]
}

const enlarged = 0.46
const gap = 0.04

/**
 * Where what happens before the answer is a small part of the whole, the first
 * milliseconds are enlarged and the axis has a break.
 */
export function axisOf(timeline: Timeline): Axis {
  const total = Math.max(timeline.total, 0.001)
  const early = Math.max(0, ...timeline.tries.flatMap((attempt) => attempt.bars.filter((bar) => bar.phase !== 'stream' && bar.phase !== 'body').map((bar) => bar.to)), ...timeline.gateway.map((bar) => bar.to))
  const split = early > 0 && early < total * 0.15 ? niceMax(early * 1.15) : null
  if (split === null || split >= total) {
    return {
      split: null,
      place: (ms) => Math.min(1, Math.max(0, ms / total)),
      ticks: [0, 0.5, 1].map((part) => ({ at: part, ms: total * part })),
    }
  }
  const place = (ms: number) => {
    if (ms <= split) return (Math.max(0, ms) / split) * enlarged
    return enlarged + gap + (Math.min(1, (ms - split) / (total - split))) * (1 - enlarged - gap)
  }
  return { split, place, ticks: [0, split / 2, split, total].map((ms) => ({ at: ms === split ? enlarged : place(ms), ms })) }
}
