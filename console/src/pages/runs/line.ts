// The calls of a run on one axis. Pauses in which no call runs are shortened: an agent waits for
// its person longer than for its model.
import type { Call } from '@/api/types'
import { outcome } from '@/live/series'
import type { Axis, TimeBar } from '../calls/timeline'

export interface Turn {
  call: Call
  /** Its place among the calls of the run, from 1 on. */
  number: number
  bars: TimeBar[]
}

export interface RunLine {
  /** The oldest first. */
  turns: Turn[]
  axis: Axis
  /** Where a pause was shortened, as a place on the axis, and how long it was. */
  pauses: { at: number; ms: number }[]
}

/** The longest that a pause is drawn, as a part of the time in which calls ran. */
const longestPause = 0.05

/** Shorter pauses are not worth a mark. */
const leastPause = 1000

/** Calls, the newest first, as the list has them; total counts all of the run. */
export function lineOf(calls: readonly Call[], total: number): RunLine {
  const oldest = calls.toReversed()
  const begin = Date.parse(oldest[0]?.time ?? '')
  const first = Math.max(0, total - oldest.length)
  const turns = oldest.map((call, index): Turn => ({ call, number: first + index + 1, bars: barsOf(call, Date.parse(call.time) - begin) }))
  const spans = turns.map(({ bars }) => [bars[0]!.from, bars.at(-1)!.to] as const).toSorted((a, b) => a[0] - b[0])
  return { turns, ...axisOf(spans) }
}

/** A call as a wait and an answer; one that failed is one bar. */
function barsOf(call: Call, from: number): TimeBar[] {
  const end = from + Math.max(call.durationMs, 0)
  const bar = (phase: TimeBar['phase'], begin: number, to: number, kind: TimeBar['kind']): TimeBar => ({ phase, from: begin, to: Math.max(begin, to), kind, present: true })
  if (outcome(call) !== 'answered') return [bar('errorRead', from, end, 'failed')]
  const answered = Math.min(end, from + (call.timeToFirstTokenMs ?? call.timeline?.firstByteMs ?? call.durationMs))
  return [bar('firstToken', from, answered, 'waiting'), bar(call.streamed ? 'stream' : 'body', answered, end, 'streaming')]
}

/** An axis for spans that are sorted by their beginning. */
function axisOf(spans: readonly (readonly [number, number])[]): Pick<RunLine, 'axis' | 'pauses'> {
  const busy: [number, number][] = []
  for (const [from, to] of spans) {
    const last = busy.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else busy.push([from, to])
  }
  const worked = Math.max(1, busy.reduce((sum, [from, to]) => sum + to - from, 0))
  // Each piece of time has a length on the axis; pauses have at most longestPause of the work.
  const pieces: { from: number; to: number; at: number; length: number }[] = []
  const long: { at: number; length: number; ms: number }[] = []
  let at = 0
  for (const [index, [from, to]] of busy.entries()) {
    const before = busy[index - 1]
    if (before !== undefined) {
      const gap = from - before[1]
      const length = Math.min(gap, worked * longestPause)
      if (length < gap && gap >= leastPause) long.push({ at, length, ms: gap })
      pieces.push({ from: before[1], to: from, at, length })
      at += length
    }
    pieces.push({ from, to, at, length: to - from })
    at += to - from
  }
  const whole = Math.max(at, 0.001)
  const place = (ms: number) => {
    const piece = pieces.findLast((one) => ms >= one.from) ?? pieces[0]
    if (piece === undefined) return 0
    const part = piece.to > piece.from ? Math.min(1, (ms - piece.from) / (piece.to - piece.from)) : 0
    return Math.min(1, Math.max(0, (piece.at + part * piece.length) / whole))
  }
  const end = busy.at(-1)?.[1] ?? 0
  return {
    axis: { split: null, place, ticks: [{ at: 0, ms: 0 }, { at: 1, ms: end }] },
    pauses: long.map(({ at: begin, length, ms }) => ({ at: (begin + length / 2) / whole, ms })),
  }
}
